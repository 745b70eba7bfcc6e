package main

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe"
)

// sample is what the page shows at one time.
type sample struct {
	AtMs       int64        `json:"atMs"` // since the start
	Pool       int          `json:"pool"` // connections of each shop
	PatienceMs int64        `json:"patienceMs"`
	Load       load         `json:"load"`
	Shops      []shopSample `json:"shops"`
	Nodes      []nodeSample `json:"nodes"`
	Events     []event      `json:"events"` // the last ones, oldest first
}

// shopSample is one shop at one time.
type shopSample struct {
	Way    string  `json:"way"`
	InUse  float64 `json:"inUse"` // connections, the mean since the last sample
	OnSale figures `json:"onSale"`
	Others figures `json:"others"`
	count
	OthersSold int64  `json:"othersSold"` // orders without the product on sale, since the start
	Holder     string `json:"holder"`     // what a paused holder does
	Err        string `json:"err"`        // the last unexpected error of an order
}

// nodeSample is one node at one time.
type nodeSample struct {
	Down  string `json:"down"`  // what was done to it: killed or frozen
	State string `json:"state"` // what lockpipe knows about it
	ForMs int64  `json:"forMs"` // how long it is quarantined yet, at most
}

// event is something that somebody did.
type event struct {
	Number int    `json:"number"`
	AtMs   int64  `json:"atMs"`
	Text   string `json:"text"`
}

// maxEvents is how many the page keeps.
const maxEvents = 12

// sample looks at everything.
func (b *lab) sample() sample {
	now := time.Now()
	l, _ := b.loads.get()
	all := sample{
		AtMs: now.Sub(b.begun).Milliseconds(), Pool: pool, PatienceMs: patience.Milliseconds(),
		Load: l,
	}
	for _, s := range b.shops {
		all.Shops = append(all.Shops, s.sample(b.ctx, now))
	}
	known := b.client().Nodes()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range all.Shops {
		all.Shops[i].Holder = b.holders[i]
	}
	for i, n := range known {
		m := nodeSample{Down: b.down[i], State: n.State.String()}
		if !n.Until.IsZero() {
			m.ForMs = max(0, n.Until.Sub(now).Milliseconds())
		}
		all.Nodes = append(all.Nodes, m)
	}
	all.Events = append([]event{}, b.events...)
	return all
}

// client returns the client of the shop that has locks outside of the database.
func (b *lab) client() *lockpipe.Client { return b.shops[len(b.shops)-1].backends.Locks }

// sample counts within an interval. If the database does not answer in this time, the pieces stay
// as they were counted last.
func (s *shop) sample(ctx context.Context, now time.Time) shopSample {
	ctx, cancel := context.WithTimeout(ctx, interval)
	defer cancel()
	if c, err := s.ledger.count(ctx); err == nil {
		s.counted = c
	}
	all := shopSample{Way: s.way, count: s.counted, OthersSold: s.others.Load()}
	all.OnSale, all.Others = s.window.last(now)
	if text := s.errors.Load(); text != nil {
		all.Err = *text
	}
	return all
}

// note adds an event.
func (b *lab) note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	number := 1
	if n := len(b.events); n > 0 {
		number = b.events[n-1].Number + 1
	}
	b.events = append(b.events, event{number, time.Since(b.begun).Milliseconds(), text})
	b.events = b.events[max(0, len(b.events)-maxEvents):]
}
