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

// load describes the callers of a shop. Some order the hot product 0 and others with it, some order
// other products. Each places one order after another.
type load struct {
	hot, cold int  // callers
	products  int  // in the shop
	items     int  // of an order
	mixed     bool // each order of the hot product has different other products
	warmup    time.Duration
	duration  time.Duration
}

// measured is the result of a load.
type measured struct {
	hot, cold   []time.Duration // times of the orders placed within the duration; sorted
	placed      int             // also before and after it
	connections []int           // in use, at several times; sorted
	failed      int
	err         error // the first of the failures
}

// run places orders for the duration, and returns when the last of them has ended.
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
				m.record(hot, err, time.Since(begun), time.Now().After(from) &&
					time.Now().Before(until))
			}
		})
	}
	time.Sleep(l.warmup)
	var sum measured
	for time.Now().Before(until) && ctx.Err() == nil {
		sum.connections = append(sum.connections, db.Stats().InUse)
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
	slices.Sort(sum.connections)
	return sum
}

// pick returns the products of one order: the hot bundle, which is always the same, or random other
// products.
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

func (m *measured) record(hot bool, err error, took time.Duration, counts bool) {
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
