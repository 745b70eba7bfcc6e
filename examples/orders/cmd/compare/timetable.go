package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/examples/orders"
)

// arrival is an order that has become due.
type arrival struct {
	id       int
	products []int
	due      time.Time
}

// byTimetable places orders when they are due, however slow the shop is. The time of an order
// counts from when it was due, not from when a caller was free for it. So a shop that is slow can't
// hide how long its customers wait.
func (l load) byTimetable(ctx context.Context, shop orders.Shop, start time.Time,
	w window,
) (sum measured) {
	queue := make(chan arrival, l.queue)
	results := make([]measured, l.callers)
	var callers sync.WaitGroup
	for i := range results {
		m := &results[i]
		callers.Go(func() {
			for a := range queue {
				hot := isHot(a.products)
				if time.Since(a.due) > l.patience {
					m.drop(hot, a.due, w)
					continue
				}
				err := shop.Place(ctx, orders.NewOrder(a.id, a.products...))
				m.record(hot, err, a.due, time.Now(), w)
			}
		})
	}
	next := l.baskets.generator(0)
	choice := rand.New(rand.NewPCG(1, 2))
	for n := range l.perSecond.Count(l.warmup + l.duration) {
		due := start.Add(l.perSecond.Due(n))
		time.Sleep(time.Until(due))
		if ctx.Err() != nil {
			break
		}
		a := arrival{int(n) + 1, next(choice.Float64() < l.baskets.hotShare), due}
		select {
		case queue <- a:
		default:
			sum.drop(isHot(a.products), due, w)
		}
	}
	close(queue)
	callers.Wait()
	for i := range results {
		sum.add(&results[i])
	}
	return sum
}
