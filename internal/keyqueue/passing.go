package keyqueue

import "time"

// passing is how a key goes from call to call of this process without a pause. The zero value says
// that it does not.
type passing struct {
	since    time.Time // when the first call passed it on, or when a call yielded last
	arrivals uint64    // how many calls had arrived then
	yields   bool      // no call was granted it since a call yielded
}

// Passing returns since when the keys of c, which has them, go from call to call of this process:
// of the key that does so for the longest time. It is zero if they do not. served: all calls have
// had the keys, or have gone, that waited for one of them when these began to go so. yields: other
// processes have their chance before c.
func (q *Queue) Passing(c *Call) (since time.Time, served, yields bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	served = true
	for _, k := range c.keys {
		if p := k.passing.since; !p.IsZero() && (since.IsZero() || p.Before(since)) {
			since = p
		}
		if first := k.queue.first(); first != nil && first.arrival <= k.passing.arrivals {
			served = false
		}
		yields = yields || k.passing.yields
	}
	return since, served, yields
}

// Yield says that c, which has its keys, gives other processes a chance before it leaves them to
// the next call.
func (q *Queue) Yield(c *Call, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, k := range c.keys {
		k.passing = passing{now, q.arrivals, true}
	}
}
