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
	restShare = 0.85
	// maxRest is the longest such rest.
	maxRest = 150 * time.Millisecond
	// rivalMemory is how long it is remembered that others compete for some keys; and maxFree how
	// often these may be found free in a row.
	rivalMemory = time.Second
	maxFree     = 8
	// maxRivalries is for how many sets of keys that is remembered.
	maxRivalries = 1 << 12
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
type rivals struct {
	some atomic.Bool // whether there may be any: all that a call for other keys looks at

	mu    sync.Mutex // guards all below; a leaf
	rooms map[string]rivalry
}

// rivalry is what is known of the keys of one room.
type rivalry struct {
	key  string        // that another had
	rest time.Duration // how long to stay away
	turn time.Duration // of one holder, on average
	free int           // how often in a row the keys were free at the first look
	seen time.Time
}

// contest is how a caller came to its keys against other processes.
type contest struct {
	key        string        // that another had; empty: none
	took, rest time.Duration // the rest at its beginning included
	lost       int           // how often another was quicker
	free       bool          // the keys were free at the first look
}

// of returns what is known of the keys of a room; the zero value is nothing.
func (r *rivals) of(room string) rivalry {
	if !r.some.Load() {
		return rivalry{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.rooms[room]
	if time.Since(known.seen) > rivalMemory {
		return rivalry{}
	}
	return known
}

// won notes how the keys of a room were won. A call without a room does not queue, and takes no
// part.
func (r *rivals) won(room string, c contest) {
	if room == "" || c.key == "" {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if next, contended := r.rooms[room].after(c, now); contended {
		r.make(now)
		r.rooms[room] = next
	} else {
		delete(r.rooms, room)
	}
	r.some.Store(len(r.rooms) > 0)
}

// after is what is known after a contest; false: that nobody contends any more.
func (k rivalry) after(c contest, now time.Time) (rivalry, bool) {
	turn := (c.took - c.rest) / time.Duration(c.lost+1)
	if k.turn > 0 {
		turn = k.turn + (turn-k.turn)/6
	}
	next := rivalry{key: c.key, turn: turn, seen: now}
	next.rest = min(max(0, time.Duration(restShare*float64(c.took-turn))), maxRest)
	if c.free {
		next.free = k.free + 1
	}
	return next, next.free < maxFree
}

// make has room for one more. mu is held.
func (r *rivals) make(now time.Time) {
	if r.rooms == nil {
		r.rooms = make(map[string]rivalry)
	}
	if len(r.rooms) < maxRivalries {
		return
	}
	for room, known := range r.rooms {
		if now.Sub(known.seen) > rivalMemory {
			delete(r.rooms, room)
		}
	}
	if len(r.rooms) > maxRivalries/2 { // it must not be searched each time
		r.rooms = make(map[string]rivalry)
	}
}
