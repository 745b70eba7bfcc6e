package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/examples/orders"
	"github.com/stretchr/testify/require"
)

// slowShop takes the same time for each order.
type slowShop time.Duration

func (s slowShop) Place(context.Context, orders.Order) error {
	time.Sleep(time.Duration(s))
	return nil
}

// onTimetable places 20 orders within a second, by one caller.
func onTimetable(shop slowShop, queue int, patience time.Duration) measured {
	l := load{
		baskets: baskets{kind: flash, products: 10, items: 1, hotShare: 1}, perSecond: 20,
		duration: time.Second, callers: 1, queue: queue, patience: patience,
	}
	start := time.Now()
	m := l.byTimetable(context.Background(), shop, start, window{start, start.Add(time.Second)})
	m.sort()
	return m
}

// The goal: the time of an order counts from when it was due. A shop that needs 100 ms for an
// order, of which one is due every 50 ms, makes the last of 20 wait for 950 ms before its turn.
func TestTimetable_TimeCountsFromWhenAnOrderWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := onTimetable(slowShop(100*time.Millisecond), 100, time.Hour)
		require.Len(t, m.hot.took, 20)
		require.Equal(t, 100*time.Millisecond, m.hot.took[0])
		require.Equal(t, 1050*time.Millisecond, m.hot.took[19])
		require.Equal(t, []int{20, 9, 1, 0},
			[]int{m.placed, m.hot.ended, m.hot.late, m.hot.dropped})
	})
}

// The goal: the queue is bounded. Orders that find it full are dropped, and the percentiles count
// them as slower than any other.
func TestTimetable_OrdersThatFindTheQueueFullAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := onTimetable(slowShop(time.Hour), 3, 2*time.Hour)
		require.Equal(t, []int{3, 17}, []int{m.placed, m.hot.dropped})
		_, placed := m.hot.percentile(50)
		require.False(t, placed)
	})
}

// The goal: an order that has waited too long for the shop is not placed any more.
func TestTimetable_OrdersThatWaitTooLongAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := onTimetable(slowShop(10*time.Second), 100, 9*time.Second)
		require.Equal(t, []int{1, 19}, []int{m.placed, m.hot.dropped})
	})
}

// The goal: each basket has as many different products as it should, and hot orders are hot.
func TestBaskets_HaveDifferentProducts(t *testing.T) {
	for _, kind := range []string{bundle, mixed, flash, zipf} {
		next := baskets{kind: kind, products: 50, items: 3}.generator(1)
		for i := range 200 {
			hot := i%2 == 0
			products := next(hot)
			require.Len(t, orders.NewOrder(1, products...).Products, len(products))
			if kind == flash && hot {
				require.Equal(t, []int{0}, products)
				continue
			}
			require.Len(t, products, 3)
			if kind != zipf {
				require.Equal(t, hot, isHot(products))
			}
		}
	}
}
