package orders

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/batch"
)

const (
	groupSize    = 64 // orders in one statement, at most
	groupLimit   = 1 << 14
	groupTimeout = 2 * time.Second // for an answer of the database
	// After waiting that long for its locks, an order has others behind it, which wait for each of
	// its steps. It uses the express logs, which are mostly empty.
	expressAfter = 50 * time.Millisecond
)

// Grouped is Locked for a database that is the bottleneck: the present orders share one statement.
// Their products all differ, because each order holds the locks of its own. Transactions that keep
// row locks can't share anything. An error of the database is one for all orders of the group.
type Grouped struct {
	locks   *lockpipe.Client
	pay     Pay
	normal  logs
	express logs // for products that others wait for
}

// logs carry orders to the database.
type logs struct {
	checks, sales *orderLog
}

// orderLog has one reader, the database. Its trips use one connection.
type orderLog = batch.Log[queuedOrder, struct{}]

// queuedOrder is an order on its way to the database.
type queuedOrder struct {
	order    Order
	leaseCtx context.Context // of the lease
	result   chan error      // of capacity 1
}

// NewGrouped returns a shop. While no order is in progress, it has no goroutines and no
// connections.
func NewGrouped(store *Store, locks *lockpipe.Client, pay Pay) *Grouped {
	open := func() logs {
		return logs{checks: newLog(store.checkGroup), sales: newLog(store.sellGroup)}
	}
	return &Grouped{locks: locks, pay: pay, normal: open(), express: open()}
}

// newLog returns a log that is read with do, which replies to each order of a group.
func newLog(do func(ctx context.Context, group []*queuedOrder, replies []error)) *orderLog {
	return batch.New(batch.Config[queuedOrder, struct{}]{
		Readers: 1, Quorum: 1, Weight: func(*queuedOrder) int { return 1 },
		Read: func(t *batch.Trip[queuedOrder, struct{}]) {
			defer t.End()
			ctx, cancel := context.WithTimeout(context.Background(), groupTimeout)
			defer cancel()
			var group []*queuedOrder
			for _, r := range t.Rounds {
				group = append(group, r.Ops()...)
			}
			replies := make([]error, len(group))
			do(ctx, group, replies)
			for i, v := range group {
				v.result <- replies[i]
			}
		},
		MaxWeight: groupSize, Window: 1, Limit: groupLimit,
	})
}

// Place implements Shop.
func (s *Grouped) Place(ctx context.Context, o Order) (err error) {
	begun := time.Now()
	lease, err := s.locks.AcquireAll(ctx, keys(o), lockpipe.WithTTL(leaseTTL))
	if err != nil {
		return err
	}
	defer release(ctx, lease)
	defer because(lease, &err)
	leaseCtx, by := lease.Bind(ctx), s.normal
	if time.Since(begun) > expressAfter {
		by = s.express
	}
	if err := send(leaseCtx, o, by.checks); err != nil {
		return err
	}
	if err := s.pay(leaseCtx, o); err != nil {
		return err
	}
	return send(leaseCtx, o, by.sales)
}

// send queues the order and waits for the result. The trip ends within groupTimeout. A sale is only
// sent if the lease still holds.
func send(leaseCtx context.Context, o Order, to *orderLog) error {
	v := &queuedOrder{order: o, leaseCtx: leaseCtx, result: make(chan error, 1)}
	if _, err := to.Append(v, batch.All); err != nil {
		return err
	}
	return <-v.result
}

// checkGroup replies ErrSoldOut to the orders whose products have run out.
func (s *Store) checkGroup(ctx context.Context, group []*queuedOrder, replies []error) {
	var products []int
	for _, v := range group {
		products = append(products, v.order.Products...)
	}
	found, err := s.inStock(ctx, products)
	for i, v := range group {
		if replies[i] = err; err == nil {
			replies[i] = found.check(v.order)
		}
	}
}

// sellGroup sells to all orders whose leases hold.
func (s *Store) sellGroup(ctx context.Context, group []*queuedOrder, replies []error) {
	seen := make(map[int]bool)
	var sold []Order
	var places []int
	for i, v := range group {
		if replies[i] = context.Cause(v.leaseCtx); replies[i] != nil {
			continue
		}
		for _, p := range v.order.Products {
			if seen[p] { // two orders hold the same lock: a lease has just ended
				replies[i] = ErrLate
			}
		}
		if replies[i] == nil {
			for _, p := range v.order.Products {
				seen[p] = true
			}
			sold, places = append(sold, v.order), append(places, i)
		}
	}
	if len(sold) == 0 {
		return
	}
	err := s.sell(ctx, sold...)
	for _, i := range places {
		replies[i] = err
	}
}
