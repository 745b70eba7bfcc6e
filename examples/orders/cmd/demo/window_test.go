package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: the figures are of the last second only, of each kind of order alone, and a customer
// who left has waited too.
func TestWindow_FiguresAreOfTheLastSecond(t *testing.T) {
	var w window
	begin := time.Now()
	w.add(ended{at: begin, took: time.Hour, onSale: true})
	for i := range 100 {
		w.add(ended{
			at:   begin.Add(1500*time.Millisecond + time.Duration(i)*time.Millisecond),
			took: time.Duration(i+1) * time.Millisecond, onSale: true,
		})
	}
	w.add(ended{at: begin.Add(1700 * time.Millisecond), took: 3 * time.Second, gaveUp: true})
	onSale, others := w.last(begin.Add(2 * time.Second))
	require.Equal(t, figures{PerS: 100, P50: 51, P99: 100, Any: true}, onSale)
	require.Equal(t, figures{P50: 3000, P99: 3000, GaveUp: 1, Any: true}, others)

	onSale, others = w.last(begin.Add(time.Minute))
	require.Zero(t, onSale)
	require.Zero(t, others)
	require.Empty(t, w.orders)
}

// The goal: a window that nobody looks at stays small.
func TestWindow_ForgetsWithoutBeingAsked(t *testing.T) {
	var w window
	begin := time.Now()
	for i := range 100_000 {
		w.add(ended{at: begin.Add(time.Duration(i) * 100 * time.Millisecond)})
	}
	require.LessOrEqual(t, cap(w.orders), 64)
}

// The goal: half of the callers of a flash sale want the product on sale, and nobody else does. A
// Zipf order has different products, the popular ones most often.
func TestBasket_ProductsAreAsTheLoadSays(t *testing.T) {
	require.Equal(t, []int{0}, newBasket(1).next(load{Products: flash}, 2))
	for range 1000 {
		chosen := newBasket(3).next(load{Products: flash}, 3)
		require.Len(t, chosen, 1)
		require.Positive(t, chosen[0])
		require.Less(t, chosen[0], products)
	}
	onSale := 0
	for b, i := newBasket(5), 0; i < 1000; i++ {
		chosen := map[int]bool{}
		for _, p := range b.next(load{Products: zipf}, i) {
			require.Less(t, p, products)
			chosen[p] = true
		}
		require.Len(t, chosen, items)
		if chosen[0] {
			onSale++
		}
	}
	require.Greater(t, onSale, 250)
	require.Less(t, onSale, 750)
}

// The goal: callers that wait for a change of the load hear of it.
func TestDial_ChangeIsNoticed(t *testing.T) {
	d := newDial(load{Callers: 16})
	_, changed := d.get()
	d.set(load{Callers: 64})
	<-changed
	l, changed := d.get()
	require.Equal(t, 64, l.Callers)
	require.NotNil(t, changed)
}
