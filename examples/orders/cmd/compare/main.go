// Command compare places orders in each way of package orders, on a database and nodes that it
// starts, and prints the throughput and latency of each. With -faults it breaks things meanwhile.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockpipe/lockpipe/examples/orders"
	"github.com/lockpipe/lockpipe/examples/orders/database"
	"github.com/lockpipe/lockpipe/examples/orders/holder"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

const (
	masters = 5
	pieces  = 1_000_000 // of each product: more than can be sold
)

func main() {
	holder.Main()
	s, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	sections, err := compare(ctx, s)
	if s.page != "" && len(sections) > 0 {
		err = errors.Join(err, writePage(s.page, s, sections))
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// compare returns a section for each case, also if a later one fails.
func compare(ctx context.Context, s *settings) (sections []section, err error) {
	nodes, err := lockpipetest.Start(masters)
	if err != nil {
		return nil, err
	}
	defer nodes.Close() //nolint:errcheck // the results are printed already
	fmt.Printf("%d masters (%s); %s\n", masters, nodes.Backend(), s.load)
	for _, name := range s.databases {
		kind := kinds[name]
		if s.durable {
			kind = kind.Durable()
		}
		server, err := kind.Start()
		if errors.Is(err, database.ErrMissing) {
			fmt.Printf("\n%s is left out: %v\n", name, err)
			continue
		}
		if err != nil {
			return sections, fmt.Errorf("%s: %w", name, err)
		}
		done, err := s.on(ctx, kind, server, nodes)
		sections = append(sections, done...)
		if err = errors.Join(err, server.Close()); err != nil {
			return sections, fmt.Errorf("%s: %w", name, err)
		}
	}
	return sections, nil
}

// kinds are the databases by their names in -db.
var kinds = map[string]*database.Kind{"postgres": database.Postgres, "mariadb": database.MariaDB}

// on measures all cases on one database.
func (s *settings) on(ctx context.Context, kind *database.Kind, server *database.Server,
	nodes *lockpipetest.Nodes,
) (sections []section, err error) {
	if s.faults {
		server.DB.SetMaxOpenConns(s.pools[0])
		done, err := runFaults(ctx, s.waysOn(kind), server, nodes)
		done.print()
		return []section{done}, err
	}
	for _, pool := range s.pools {
		server.DB.SetMaxOpenConns(pool)
		server.DB.SetMaxIdleConns(pool)
		for _, pay := range s.pays {
			rows, err := s.measure(ctx, kind, server, nodes, pay)
			if err != nil {
				return sections, err
			}
			done := rows.section(fmt.Sprintf("%s, fsync %s; a payment of %v; %d connections",
				kind.Name, map[bool]string{true: "on", false: "off"}[s.durable], pay, pool),
				s.load.duration)
			done.print()
			sections = append(sections, done)
		}
	}
	return sections, nil
}

// measure measures all ways in one case.
func (s *settings) measure(ctx context.Context, kind *database.Kind, server *database.Server,
	nodes *lockpipetest.Nodes, pay time.Duration,
) (rows table, err error) {
	store := open(server)
	b, err := orders.Connect(store, nodes.URLs(), "", payment(pay), payment(pay))
	if err != nil {
		return nil, err
	}
	defer b.Close(context.WithoutCancel(ctx)) //nolint:errcheck // as above
	for _, way := range s.waysOn(kind) {
		if err := store.Create(ctx, s.load.baskets.products, pieces); err != nil {
			return nil, err
		}
		shop := way.Open(b)
		elsewhere, isElsewhere := shop.(orders.Elsewhere)
		if isElsewhere {
			if err := elsewhere.Fill(ctx); err != nil {
				return nil, err
			}
		}
		m := s.load.run(ctx, shop, server.DB)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if isElsewhere {
			if err := elsewhere.Count(ctx); err != nil {
				return nil, fmt.Errorf("%s: %w", way.Name, err)
			}
		}
		if err := store.Audit(ctx, pieces, m.placed); err != nil {
			return nil, fmt.Errorf("%s: %w", way.Name, err)
		}
		rows = append(rows, row{way.Name, m})
	}
	return rows, nil
}

// open returns the store of a database.
func open(server *database.Server) *orders.Store {
	if server.Driver == "pgx" {
		return orders.NewPostgres(server.DB)
	}
	return orders.NewMariaDB(server.DB)
}

// payment returns a payment that takes a time.
func payment(takes time.Duration) orders.Pay {
	return func(ctx context.Context, _ orders.Order) error {
		if takes == 0 {
			return nil
		}
		select {
		case <-time.After(takes):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
