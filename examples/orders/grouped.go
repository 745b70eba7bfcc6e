package orders

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/batch"
)

const (
	groupSize = 64 // orders in one statement, at most
	// Under way at a time, for looks and for sales each: so many connections are in use.
	groupTrips    = 1
	groupWaiting  = 1 << 14
	groupPatience = 2 * time.Second // for the database to answer
	// Who waited so long for its locks has others behind it, who wait for each step that it takes:
	// it goes by an express line, which is empty mostly.
	crowded = 50 * time.Millisecond
)

// Grouped is Locked for a database that is the bottleneck: what the orders of this moment have for
// it goes in one statement. Their products all differ, as each order holds the locks of its own;
// transactions that keep row locks can't share anything. An error of the database is one for all
// orders of the group.
type Grouped struct {
	locks *lockpipe.Client
	pay   Pay
	usual line
	fast  line // for crowded products
}

// line carries orders to the database.
type line struct {
	looks, sales *batch.Pipeline[*visit, error]
}

// visit is an order on its way to the database.
type visit struct {
	batch.Call[*visit]
	order Order
	held  context.Context // of the lease
	reply chan error      // of capacity 1
}

// NewGrouped returns a shop without goroutines or connections while no order is under way.
func NewGrouped(store *Store, locks *lockpipe.Client, pay Pay) *Grouped {
	open := func() line {
		return line{
			looks: pipeline(store.lookFor),
			sales: pipeline(store.sellTo),
		}
	}
	return &Grouped{locks: locks, pay: pay, usual: open(), fast: open()}
}

func pipeline(flush func(ctx context.Context, group []*visit,
	replies []error),
) *batch.Pipeline[*visit, error] {
	return batch.New(batch.Config[*visit, error]{
		Flush: func(group []*visit, replies []error) {
			ctx, cancel := context.WithTimeout(context.Background(), groupPatience)
			defer cancel()
			flush(ctx, group, replies)
		},
		Done:     func(v *visit, err error) { v.reply <- err },
		Weight:   func(*visit) int { return 1 },
		MaxFlush: groupSize, Window: groupTrips, OverlapAt: func() int { return groupSize },
		Limit: groupWaiting,
	})
}

// Place implements Shop.
func (s *Grouped) Place(ctx context.Context, o Order) error {
	begun := time.Now()
	lease, err := s.locks.AcquireAll(ctx, keys(o), lockpipe.WithTTL(leaseTime))
	if err != nil {
		return err
	}
	defer release(ctx, lease)
	held, by := lease.Context(), s.usual
	if time.Since(begun) > crowded {
		by = s.fast
	}
	if err := send(held, o, by.looks); err != nil {
		return err
	}
	if err := s.pay(held, o); err != nil {
		return err
	}
	return send(held, o, by.sales)
}

// send waits for the answer, which comes within groupPatience; the lease holds until then, or the
// trip is not begun.
func send(held context.Context, o Order, to *batch.Pipeline[*visit, error]) error {
	v := &visit{order: o, held: held, reply: make(chan error, 1)}
	v.Op = v
	if err := to.Enqueue(&v.Call); err != nil {
		return err
	}
	return <-v.reply
}

// lookFor replies ErrSoldOut to the orders that can't be served.
func (s *Store) lookFor(ctx context.Context, group []*visit, replies []error) {
	var products []int
	for _, v := range group {
		products = append(products, v.order.Products...)
	}
	found, err := s.look(ctx, products)
	for i, v := range group {
		if replies[i] = err; err == nil {
			replies[i] = found.serve(v.order)
		}
	}
}

// sellTo sells to all whose leases hold.
func (s *Store) sellTo(ctx context.Context, group []*visit, replies []error) {
	taken := make(map[int]bool)
	var sold []Order
	var places []int
	for i, v := range group {
		if replies[i] = context.Cause(v.held); replies[i] != nil {
			continue
		}
		for _, p := range v.order.Products {
			if taken[p] { // two hold the same lock: a lease has ended just now
				replies[i] = ErrLate
			}
		}
		if replies[i] == nil {
			for _, p := range v.order.Products {
				taken[p] = true
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
