package keyqueue

import (
	"slices"
	"time"
)

// Passing is how keys go from call to call of this process without a pause. The zero value says
// that they do not.
type Passing struct {
	Since time.Time // when the first call passed them on, or when one yielded last
	// Arrivals is how many calls had arrived then.
	Arrivals uint64
}

// begin says that k is passed on, at now.
func (k *key) begin(now time.Time, arrivals uint64) {
	if k.passing.Since.IsZero() {
		k.passing = Passing{now, arrivals}
	}
}

// Passing returns how the keys of c, which has them, go from call to call of this process: of the
// key that does so for the longest time.
func (q *Queue) Passing(c *Call) (p Passing) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range c.entries {
		k := c.entries[i].key.passing
		if !k.Since.IsZero() && (p.Since.IsZero() || k.Since.Before(p.Since)) {
			p = k
		}
	}
	return p
}

// Served reports whether all calls have had the keys of c, or have gone, that waited for one of
// them when these began to go from call to call.
func (q *Queue) Served(c *Call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !slices.ContainsFunc(c.entries, func(e entry) bool {
		return e.key.first != nil && e.key.first.call.arrival <= e.key.passing.Arrivals
	})
}

// Yield says that c, which runs, gives other processes a chance to take its keys.
func (q *Queue) Yield(c *Call, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range c.entries {
		c.entries[i].key.passing = Passing{now, q.arrivals}
	}
}

// Uses reports whether a call has this key, contends for it, or reserves it.
func (q *Queue) Uses(name string) (uses bool) {
	q.look([]string{name}, func(k *key) bool {
		uses = k.owner != nil || k.contender != nil || k.reserver != nil
		return false
	})
	return uses
}
