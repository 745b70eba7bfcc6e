package main

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/examples/orders"
)

// load is what is done to a shop: some callers order the hot product 0 and what goes with it, and
// some order others, each one order after the other.
type load struct {
	hot, cold int  // callers
	products  int  // in the shop
	items     int  // of an order
	mixed     bool // with the hot product goes something else in each order
	warmup    time.Duration
	duration  time.Duration
}

// measured is what came of it.
type measured struct {
	hot, cold []time.Duration // of the orders that were placed within the duration; sorted
	placed    int             // also before and after it
	inUse     []int           // connections, sorted
	failed    int
	err       error // the first of those that failed
}

// run returns when all orders have ended that were begun before the time was over.
func (l load) run(ctx context.Context, shop orders.Shop, db *sql.DB) measured {
	from := time.Now().Add(l.warmup)
	until := from.Add(l.duration)
	var id atomic.Int64
	results := make([]measured, l.hot+l.cold)
	var callers sync.WaitGroup
	for i := range results {
		m := &results[i]
		hot := i < l.hot
		callers.Go(func() {
			for ctx.Err() == nil && time.Now().Before(until) {
				begun := time.Now()
				err := shop.Place(ctx, orders.NewOrder(int(id.Add(1)), l.pick(hot)...))
				m.note(hot, err, time.Since(begun), time.Now().After(from) &&
					time.Now().Before(until))
			}
		})
	}
	time.Sleep(l.warmup)
	var sum measured
	for time.Now().Before(until) && ctx.Err() == nil {
		sum.inUse = append(sum.inUse, db.Stats().InUse)
		time.Sleep(5 * time.Millisecond)
	}
	callers.Wait()
	for _, m := range results {
		sum.hot, sum.cold = append(sum.hot, m.hot...), append(sum.cold, m.cold...)
		sum.placed += m.placed
		sum.failed += m.failed
		if sum.err == nil {
			sum.err = m.err
		}
	}
	slices.Sort(sum.hot)
	slices.Sort(sum.cold)
	slices.Sort(sum.inUse)
	return sum
}

// pick returns the products of one order: a bundle that is the same each time, or any of the
// others.
func (l load) pick(hot bool) []int {
	var products []int
	if hot {
		for p := 0; p == 0 || p < l.items && !l.mixed; p++ {
			products = append(products, p)
		}
	}
	for len(products) < l.items {
		if p := l.items + rand.IntN(l.products-l.items); !slices.Contains(products, p) {
			products = append(products, p)
		}
	}
	return products
}

func (m *measured) note(hot bool, err error, took time.Duration, counts bool) {
	switch {
	case err != nil:
		m.failed++
		if m.err == nil {
			m.err = err
		}
		return
	case counts && hot:
		m.hot = append(m.hot, took)
	case counts:
		m.cold = append(m.cold, took)
	}
	m.placed++
}
