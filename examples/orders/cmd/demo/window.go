package main

import (
	"slices"
	"sync"
	"time"
)

// span is how far back the figures on the page look.
const span = time.Second

// window has the orders that ended within the last span. All methods are safe for concurrent use.
type window struct {
	mu     sync.Mutex
	orders []ended // in the order of their ends
}

// ended is an order that has ended.
type ended struct {
	at     time.Time
	took   time.Duration
	onSale bool // it had the product on sale
	gaveUp bool
}

// figures are of the last span.
type figures struct {
	PerS   float64 `json:"perS"`   // placed orders
	P50    float64 `json:"p50"`    // milliseconds, of placed orders and of those that gave up
	P99    float64 `json:"p99"`    // the same
	GaveUp int     `json:"gaveUp"` // orders whose customer left
	Any    bool    `json:"any"`    // P50 and P99 are known
}

func (w *window) add(e ended) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.orders = append(w.orders, e)
	if len(w.orders) == cap(w.orders) {
		w.trim(e.at)
	}
}

// last returns the figures of the span before now.
func (w *window) last(now time.Time) (onSale, others figures) {
	w.mu.Lock()
	w.trim(now)
	recent := slices.Clone(w.orders)
	w.mu.Unlock()
	return summarize(recent, true), summarize(recent, false)
}

// trim drops the orders that ended before the span.
func (w *window) trim(now time.Time) {
	w.orders = slices.DeleteFunc(w.orders, func(e ended) bool { return now.Sub(e.at) > span })
}

func summarize(recent []ended, onSale bool) (f figures) {
	var took []time.Duration
	for _, e := range recent {
		if e.onSale != onSale {
			continue
		}
		took = append(took, e.took)
		if e.gaveUp {
			f.GaveUp++
		}
	}
	f.PerS = float64(len(took)-f.GaveUp) / span.Seconds()
	if f.Any = len(took) > 0; f.Any {
		slices.Sort(took)
		percentile := func(percent int) float64 {
			return float64(took[min(len(took)*percent/100, len(took)-1)]) / 1e6
		}
		f.P50, f.P99 = percentile(50), percentile(99)
	}
	return f
}
