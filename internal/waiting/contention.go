package waiting

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// backoffFraction is the part of its last wait, less one hold of another, for which a caller
	// backs off from contended keys before it contends. With more, at times no caller is there when
	// the keys become free. With less, the unsuccessful tries cost more than the lock.
	backoffFraction = 0.85
	// maxBackoff is the longest such backoff.
	maxBackoff = 150 * time.Millisecond
	// contentionTTL is how long the process remembers that others contend for some keys.
	contentionTTL = time.Second
	// maxFreeStreak is how often in a row the keys may be found free before the process forgets it.
	maxFreeStreak = 8
	// maxTracked is how many keys the process remembers.
	maxTracked = 1 << 12
)

// Contention remembers for which keys this process contends with other processes.
//
// If all waiting processes tried at each release, all but one would try unsuccessfully, and that
// costs more than the lock itself. The process that releases the lock would be the first to try
// again. So a caller backs off first, for a fraction f of the time W that it had to wait the last
// time. Then it contends, for a time t. t depends on how many contend at once, and so is the same
// for all. So the waits become the same too: W becomes f W + t, whatever it was, and tends to
// t / (1 - f). Of all waiting callers the share 1 - f contends: those that have waited longest. One
// hold is left out of W, so that two processes simply alternate.
//
// The zero value is ready. It must not be copied. All methods are safe for concurrent use.
type Contention struct {
	any atomic.Bool // whether there may be any: a call for other keys reads nothing else

	mu     sync.Mutex       // guards all below; a leaf
	states map[string]State // by key
}

// State is what is known of the contention for one key. The zero value knows of none.
type State struct {
	Key     string        // that another process held; empty: no other process contends
	Backoff time.Duration // of the next caller

	meanHold   time.Duration // of one holder
	freeStreak int           // how often in a row the keys were free at the first look
	updated    time.Time
}

// Contended is how a caller got its keys against other processes.
type Contended struct {
	Key           string        // that another process held
	Took, Backoff time.Duration // Took includes the backoff
	LostRaces     int           // how often another was quicker
	WasFree       bool          // the keys were free at the first look
}

// Any reports whether contention may be known for any key.
func (r *Contention) Any() bool { return r.any.Load() }

// Lookup returns what is known of this key.
func (r *Contention) Lookup(key string, now time.Time) State {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.states[key]
	if now.Sub(known.updated) > contentionTTL {
		return State{}
	}
	return known
}

// Record notes how a caller got its keys.
func (r *Contention) Record(c Contended, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if next := r.states[c.Key].after(c, now); next.Key != "" {
		r.evict(now)
		r.states[c.Key] = next
	} else {
		delete(r.states, c.Key)
	}
	r.any.Store(len(r.states) > 0)
}

// after returns what is known after a contended acquire. It is zero if no other process contends
// any more.
func (k State) after(c Contended, now time.Time) State {
	next := State{Key: c.Key, meanHold: k.nextHold(c), updated: now}
	next.Backoff = backoff(c.Took, next.meanHold)
	if c.WasFree {
		next.freeStreak = k.freeStreak + 1
	}
	if next.freeStreak >= maxFreeStreak {
		return State{}
	}
	return next
}

// nextHold returns the mean time of one hold, as a contended acquire shows it. While a caller
// contended, each race that it lost was a hold of another, and one more was before its own.
func (k State) nextHold(c Contended) time.Duration {
	hold := (c.Took - c.Backoff) / time.Duration(c.LostRaces+1)
	if k.meanHold > 0 {
		hold = k.meanHold + (hold-k.meanHold)/6
	}
	return hold
}

// backoff returns for how long the next caller backs off, if the last one waited for took.
func backoff(took, hold time.Duration) time.Duration {
	return min(max(0, time.Duration(backoffFraction*float64(took-hold))), maxBackoff)
}

// evict makes room for one more key. mu is held.
func (r *Contention) evict(now time.Time) {
	if r.states == nil {
		r.states = make(map[string]State)
	}
	if len(r.states) < maxTracked {
		return
	}
	for key, known := range r.states {
		if now.Sub(known.updated) > contentionTTL {
			delete(r.states, key)
		}
	}
	if len(r.states) > maxTracked/2 { // or the next calls would search it again
		r.states = make(map[string]State)
	}
}
