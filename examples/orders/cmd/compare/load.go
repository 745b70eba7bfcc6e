package main

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/bench/calls"
	"github.com/lockpipe/lockpipe/examples/orders"
)

// load describes the orders of a shop, and when they come: each when an earlier one has ended (a
// closed loop of hot and cold callers), or on a timetable.
type load struct {
	baskets  baskets
	warmup   time.Duration
	duration time.Duration

	hot, cold int // callers, each of which places one order after another

	// The timetable, if perSecond is above zero. At most callers orders are in the shop at once,
	// and at most queue others wait for one of these. An order that comes to a full queue is
	// dropped, and also one that has waited for patience.
	perSecond calls.Pacer
	callers   int
	queue     int
	patience  time.Duration
}

// run places orders for the duration, and returns when the last of them has ended.
func (l load) run(ctx context.Context, shop orders.Shop, db *sql.DB) measured {
	start := time.Now()
	w := window{from: start.Add(l.warmup), until: start.Add(l.warmup + l.duration)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	connections := make(chan []int, 1)
	go func() { connections <- watch(ctx, db, w) }()
	var m measured
	if l.perSecond > 0 {
		m = l.byTimetable(ctx, shop, start, w)
	} else {
		m = l.closedLoop(ctx, shop, w)
	}
	m.connections = <-connections
	m.sort()
	return m
}

// closedLoop lets each caller place one order after another. An order is due when the caller's last
// one has ended: if the shop is slow, the callers ask for less.
func (l load) closedLoop(ctx context.Context, shop orders.Shop, w window) (sum measured) {
	var id atomic.Int64
	results := make([]measured, l.hot+l.cold)
	var callers sync.WaitGroup
	for i := range results {
		m := &results[i]
		next := l.baskets.generator(uint64(i))
		callers.Go(func() {
			for ctx.Err() == nil && time.Now().Before(w.until) {
				products := next(i < l.hot)
				due := time.Now()
				err := shop.Place(ctx, orders.NewOrder(int(id.Add(1)), products...))
				m.record(isHot(products), err, due, time.Now(), w)
			}
		})
	}
	callers.Wait()
	for i := range results {
		sum.add(&results[i])
	}
	return sum
}

// watch returns how many connections are in use, every 5 ms.
func watch(ctx context.Context, db *sql.DB, w window) (inUse []int) {
	for ctx.Err() == nil && time.Now().Before(w.until) {
		if w.has(time.Now()) {
			inUse = append(inUse, db.Stats().InUse)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return inUse
}
