package lockpipe

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// restShare is the part of its last wait, but for one turn of another, that a caller stays away
	// from contended keys before it competes. More, and now and then nobody is there when the keys
	// become free; less, and those who try in vain cost more than the lock.
	backoffFraction = 0.85
	// maxRest is the longest such rest.
	maxBackoff = 150 * time.Millisecond
	// rivalMemory is how long it is remembered that others compete for some keys; and maxFree how
	// often these may be found free in a row.
	contentionTTL = time.Second
	maxFreeStreak = 8
	// maxRivalries is for how many sets of keys that is remembered.
	maxTracked = 1 << 12
)

// rivals remembers for which keys this process has to compete with others.
//
// If all processes that wait tried at each release, all but one would try in vain, which costs more
// than the lock itself; and whoever releases it would be the first to try again. So a caller rests
// first, for a part f of the time W that it had to wait before, and competes then, for a time t
// that depends on how many compete at once and so is the same for all. So the waits become the same
// as well: W goes to f W + t, whatever it was, that is to t / (1 - f); and of all who wait, the
// share 1 - f competes, those who have waited longest. Of W one turn is left out, so that two
// processes just take turns.
type contention struct {
	any atomic.Bool // whether there may be any: all that a call for other keys looks at

	mu         sync.Mutex // guards all below; a leaf
	byQueueKey map[string]contentionState
}

// rivalry is what is known of the keys of one room.
type contentionState struct {
	key        string        // that another had
	backoff    time.Duration // how long to stay away
	meanHold   time.Duration // of one holder, on average
	freeStreak int           // how often in a row the keys were free at the first look
	updated    time.Time
}

// contest is how a caller came to its keys against other processes.
type contendedAcquire struct {
	key           string        // that another had; empty: none
	took, backoff time.Duration // the rest at its beginning included
	lostRaces     int           // how often another was quicker
	wasFree       bool          // the keys were free at the first look
}

// of returns what is known of the keys of a room; the zero value is nothing.
func (r *contention) lookup(room string) contentionState {
	if !r.any.Load() {
		return contentionState{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byQueueKey[room]
	if time.Since(known.updated) > contentionTTL {
		return contentionState{}
	}
	return known
}

// won notes how the keys of a room were won. A call without a room does not queue, and takes no
// part.
func (r *contention) record(room string, c contendedAcquire) {
	if room == "" || c.key == "" {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if next, contended := r.byQueueKey[room].next(c, now); contended {
		r.evict(now)
		r.byQueueKey[room] = next
	} else {
		delete(r.byQueueKey, room)
	}
	r.any.Store(len(r.byQueueKey) > 0)
}

// after is what is known after a contest; false: that nobody contends any more.
func (k contentionState) next(c contendedAcquire, now time.Time) (contentionState, bool) {
	turn := (c.took - c.backoff) / time.Duration(c.lostRaces+1)
	if k.meanHold > 0 {
		turn = k.meanHold + (turn-k.meanHold)/6
	}
	next := contentionState{key: c.key, meanHold: turn, updated: now}
	next.backoff = min(max(0, time.Duration(backoffFraction*float64(c.took-turn))), maxBackoff)
	if c.wasFree {
		next.freeStreak = k.freeStreak + 1
	}
	return next, next.freeStreak < maxFreeStreak
}

// make has room for one more. mu is held.
func (r *contention) evict(now time.Time) {
	if r.byQueueKey == nil {
		r.byQueueKey = make(map[string]contentionState)
	}
	if len(r.byQueueKey) < maxTracked {
		return
	}
	for room, known := range r.byQueueKey {
		if now.Sub(known.updated) > contentionTTL {
			delete(r.byQueueKey, room)
		}
	}
	if len(r.byQueueKey) > maxTracked/2 { // it must not be searched each time
		r.byQueueKey = make(map[string]contentionState)
	}
}
