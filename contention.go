package lockpipe

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
	// maxTracked is for how many sets of keys it is remembered.
	maxTracked = 1 << 12
)

// contention remembers for which keys this process contends with other processes.
//
// If all waiting processes tried at each release, all but one would try unsuccessfully, and that
// costs more than the lock itself. The process that releases the lock would be the first to try
// again. So a caller backs off first, for a fraction f of the time W that it had to wait the last
// time. Then it contends, for a time t. t depends on how many contend at once, and so is the same
// for all. So the waits become the same too: W becomes f W + t, whatever it was, and tends to
// t / (1 - f). Of all waiting callers the share 1 - f contends: those that have waited longest. One
// hold is left out of W, so that two processes simply alternate.
type contention struct {
	any atomic.Bool // whether there may be any: a call for other keys reads nothing else

	mu         sync.Mutex // guards all below; a leaf
	byQueueKey map[string]contentionState
}

// contentionState is what is known of one set of keys.
type contentionState struct {
	key        string        // that another process held
	backoff    time.Duration // of the next caller
	meanHold   time.Duration // of one holder
	freeStreak int           // how often in a row the keys were free at the first look
	updated    time.Time
}

// contendedAcquire is how a caller got its keys against other processes.
type contendedAcquire struct {
	key           string        // that another process held; empty: none
	took, backoff time.Duration // took includes the backoff
	lostRaces     int           // how often another was quicker
	wasFree       bool          // the keys were free at the first look
}

// lookup returns what is known of the keys with this queue key. The zero value means nothing.
func (r *contention) lookup(queueKey string) contentionState {
	if !r.any.Load() {
		return contentionState{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byQueueKey[queueKey]
	if time.Since(known.updated) > contentionTTL {
		return contentionState{}
	}
	return known
}

// record notes how a caller got its keys. A call without a queue key does not queue, and takes no
// part.
func (r *contention) record(queueKey string, c contendedAcquire) {
	if queueKey == "" || c.key == "" {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if next, contended := r.byQueueKey[queueKey].next(c, now); contended {
		r.evict(now)
		r.byQueueKey[queueKey] = next
	} else {
		delete(r.byQueueKey, queueKey)
	}
	r.any.Store(len(r.byQueueKey) > 0)
}

// next returns what is known after a contended acquire. contended is false if no other process
// contends any more.
func (k contentionState) next(c contendedAcquire, now time.Time) (_ contentionState,
	contended bool,
) {
	hold := (c.took - c.backoff) / time.Duration(c.lostRaces+1)
	if k.meanHold > 0 {
		hold = k.meanHold + (hold-k.meanHold)/6
	}
	next := contentionState{key: c.key, meanHold: hold, updated: now}
	next.backoff = min(max(0, time.Duration(backoffFraction*float64(c.took-hold))), maxBackoff)
	if c.wasFree {
		next.freeStreak = k.freeStreak + 1
	}
	return next, next.freeStreak < maxFreeStreak
}

// evict makes room for one more set of keys. mu is held.
func (r *contention) evict(now time.Time) {
	if r.byQueueKey == nil {
		r.byQueueKey = make(map[string]contentionState)
	}
	if len(r.byQueueKey) < maxTracked {
		return
	}
	for queueKey, known := range r.byQueueKey {
		if now.Sub(known.updated) > contentionTTL {
			delete(r.byQueueKey, queueKey)
		}
	}
	if len(r.byQueueKey) > maxTracked/2 { // or the next calls would search it again
		r.byQueueKey = make(map[string]contentionState)
	}
}
