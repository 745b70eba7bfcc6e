// Command compare places orders with row locks, and with locks outside of the database in three
// ways, and prints the throughput and latency of each.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/examples/orders"
	"github.com/lockpipe/lockpipe/examples/orders/database"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

const (
	masters = 5
	pieces  = 1_000_000 // of each product: more than can be sold
)

func main() {
	var l load
	names := flag.String("db", "postgres,mariadb", "the databases to start")
	pool := flag.Int("pool", 32, "connections to the database")
	pay := flag.Duration("pay", 5*time.Millisecond, "how long the payment takes, outside of the "+
		"database")
	l.flags()
	flag.Parse()
	if err := l.check(); err != nil || *pool < 1 {
		fmt.Fprintln(os.Stderr, "compare: it needs a connection:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := compare(ctx, strings.Split(*names, ","), *pool, *pay, l)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, names []string, pool int, pay time.Duration, l load) error {
	nodes, err := lockpipetest.Start(masters)
	if err != nil {
		return err
	}
	defer nodes.Close() //nolint:errcheck // the results are printed already
	fmt.Printf("%d masters (%s); %s; %d connections; a payment of %v\n", masters,
		nodes.Backend(), l, pool, pay)
	for _, name := range names {
		kind, known := map[string]*database.Kind{
			"postgres": database.Postgres,
			"mariadb":  database.MariaDB,
		}[name]
		if !known {
			return fmt.Errorf("-db %s: want postgres, mariadb or both", name)
		}
		err := compareOn(ctx, kind, nodes, pool, pay, l)
		if errors.Is(err, database.ErrMissing) {
			fmt.Printf("\n%s is left out: %v\n", name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// compareOn compares the shops on one database.
func compareOn(ctx context.Context, kind *database.Kind, nodes *lockpipetest.Nodes, pool int,
	pay time.Duration, l load,
) error {
	server, err := kind.Start()
	if err != nil {
		return err
	}
	defer server.Close() //nolint:errcheck // as above
	server.DB.SetMaxOpenConns(pool)
	server.DB.SetMaxIdleConns(pool)
	locks, err := lockpipe.New(lockpipe.Config{
		Nodes:  nodes.URLs(),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer locks.Close(context.WithoutCancel(ctx)) //nolint:errcheck // as above
	store := orders.NewMariaDB(server.DB)
	if kind == database.Postgres {
		store = orders.NewPostgres(server.DB)
	}
	charge := func(ctx context.Context, _ orders.Order) error {
		select {
		case <-time.After(pay):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var rows table
	for _, way := range []struct {
		name string
		shop orders.Shop
	}{
		{"row locks", orders.RowLocks{Store: store, Pay: charge}},
		{"lockpipe", orders.Locked{Store: store, Locks: locks, Pay: charge}},
		{"lockpipe, grouped", orders.NewGrouped(store, locks, charge)},
		{"lockpipe, fenced", orders.Fenced{Store: store, Locks: locks, Pay: charge}},
	} {
		if err := store.Create(ctx, l.baskets.products, pieces); err != nil {
			return err
		}
		m := l.run(ctx, way.shop, server.DB)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := store.Audit(ctx, pieces, m.placed); err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		rows = append(rows, row{way.name, m})
	}
	rows.print(kind.Name, l.duration)
	return nil
}
