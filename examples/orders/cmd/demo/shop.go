package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/examples/orders"
	"github.com/lockpipe/lockpipe/examples/orders/database"
)

const (
	pool = 10 // connections of each shop to its database
	// patience is when a customer leaves.
	patience = 3 * time.Second
	// pause is between two orders of a caller. It leaves room on the machine, which the shops
	// share with the servers.
	pause = 50 * time.Millisecond
)

// shop sells in one way, in tables of its own.
type shop struct {
	way    string
	prefix string // of the keys of its locks
	driver string
	source string // of database/sql, with the schema of this shop

	db       *sql.DB // of the orders
	ledger   ledger
	backends *orders.Backends
	window   window
	orders   atomic.Int64 // numbers that were given to orders
	others   atomic.Int64 // orders without the product on sale that were placed
	soldOut  chan struct{}
	errors   atomic.Pointer[string] // the last unexpected error, nil if none
	counted  count                  // by the goroutine that takes samples
}

// openShop makes the tables of a shop on a database that runs. A way with locks outside of the
// database has nodes; the schema is before its keys. The caller ends it with close.
func openShop(ctx context.Context, way, schema string, server *database.Server, nodes []string,
	pay orders.Pay,
) (s *shop, err error) {
	if _, err := server.DB.ExecContext(ctx, "CREATE SCHEMA "+schema); err != nil {
		return nil, err
	}
	s = &shop{
		way: way, prefix: "shop:" + schema + ":",
		driver: server.Driver, source: server.Source + " search_path=" + schema,
		soldOut: make(chan struct{}, 1),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	if s.db, err = sql.Open(s.driver, s.source); err != nil {
		return nil, err
	}
	s.db.SetMaxOpenConns(pool)
	s.db.SetMaxIdleConns(pool)
	if s.ledger.db, err = sql.Open(s.driver, s.source); err != nil {
		return nil, err
	}
	s.ledger.db.SetMaxOpenConns(3) // one each to count, to restock and to forget
	store := orders.NewPostgres(s.db)
	if err := s.ledger.open(ctx, store); err != nil {
		return nil, err
	}
	if s.backends = (&orders.Backends{Store: store, Pay: pay, Refund: pay}); len(nodes) > 0 {
		s.backends, err = orders.Connect(store, nodes, s.prefix, pay, pay)
	}
	return s, err
}

// open returns the way in which the shop takes orders.
func (s *shop) open() (orders.Shop, error) {
	for _, way := range orders.Ways() {
		if way.Name == s.way {
			return way.Open(s.backends), nil
		}
	}
	return nil, fmt.Errorf("there is no way %q", s.way)
}

// close closes the connections.
func (s *shop) close(ctx context.Context) (err error) {
	if s.backends != nil && s.backends.Locks != nil {
		err = s.backends.Close(ctx)
	}
	for _, db := range []*sql.DB{s.db, s.ledger.db} {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	return err
}

// run places orders until ctx ends, and returns when the last of them has ended.
func (s *shop) run(ctx context.Context, place orders.Shop, loads *dial) {
	var running sync.WaitGroup
	for caller := range callerChoices[len(callerChoices)-1] {
		running.Go(func() { s.call(ctx, place, loads, caller) })
	}
	running.Go(func() { s.refill(ctx) })
	running.Go(func() { s.clean(ctx) })
	running.Wait()
}

// call places one order after another, while the load has so many callers.
func (s *shop) call(ctx context.Context, place orders.Shop, loads *dial, caller int) {
	choice := newBasket(caller)
	for ctx.Err() == nil {
		l, changed := loads.get()
		if caller >= l.Callers {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		s.place(ctx, place, choice.next(l, caller))
		sleep(ctx, pause/2+time.Duration(choice.random.Int64N(int64(pause))))
	}
}

// place places one order, and gives up when the customer would.
func (s *shop) place(ctx context.Context, place orders.Shop, chosen []int) {
	o := orders.NewOrder(int(s.orders.Add(1)), chosen...)
	begun := time.Now()
	orderCtx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := place.Place(orderCtx, o)
	e := ended{at: time.Now(), took: time.Since(begun), onSale: o.Products[0] == 0}
	switch {
	case ctx.Err() != nil: // the shop closes
		return
	case errors.Is(err, orders.ErrSoldOut):
		select {
		case s.soldOut <- struct{}{}:
		default: // refill knows already
		}
		return
	case err != nil:
		e.gaveUp = true
		if orderCtx.Err() == nil {
			text := err.Error()
			if errors.Is(err, lockpipe.ErrExpired) || errors.Is(err, lockpipe.ErrLost) {
				text = "a lease ended before its order was placed"
			}
			s.errors.Store(&text)
		}
	case !e.onSale:
		s.others.Add(1)
	}
	s.window.add(e)
}

// refill puts the next lot on sale whenever a customer finds nothing.
func (s *shop) refill(ctx context.Context) {
	for {
		select {
		case <-s.soldOut:
		case <-ctx.Done():
			return
		}
		_ = s.ledger.restock(ctx) // the next customer asks again
	}
}

// clean removes old orders, so that a demonstration of a day needs no more room than one of a
// minute.
func (s *shop) clean(ctx context.Context) {
	for sleep(ctx, time.Second) {
		_ = s.ledger.forget(ctx, int(s.orders.Load())-history) // the next second does it
	}
}

// sleep returns whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// dial is the load that the page has set. All methods are safe for concurrent use.
type dial struct{ state atomic.Pointer[dialState] }

type dialState struct {
	load    load
	changed chan struct{} // closed when this is no longer the load
}

func newDial(l load) *dial {
	d := &dial{}
	d.state.Store(&dialState{l, make(chan struct{})})
	return d
}

// get returns the load, and a channel that is closed when it changes.
func (d *dial) get() (load, <-chan struct{}) {
	s := d.state.Load()
	return s.load, s.changed
}

func (d *dial) set(l load) { close(d.state.Swap(&dialState{l, make(chan struct{})}).changed) }

// pay is a payment, outside of the database.
func (d *dial) pay(ctx context.Context, _ orders.Order) error {
	l, _ := d.get()
	if l.OutsideMs > 0 && !sleep(ctx, l.outside()) {
		return ctx.Err()
	}
	return nil
}
