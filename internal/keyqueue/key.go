package keyqueue

import (
	"maps"
	"slices"
)

// maxOvertaken is how many calls that arrived later are granted a key before a call, until that
// call may reserve its keys although others are before it in the queue of this key.
const maxOvertaken = 8

const (
	// maxSpare is how many keys without calls keep their memory for others.
	maxSpare = 128
	// minPeak is how many keys make the map worth shrinking: a Go map keeps its memory when entries
	// are deleted.
	minPeak = 1024
	// shrinkRatio says when the map shrinks: when its keys are this part of the peak. The remaining
	// keys are moved, so they must be few compared with the deleted ones.
	shrinkRatio = 64
)

// key is a key that a call waits for or has.
type key struct {
	name      string
	owner     *Call // runs with it or holds it; nil: none
	contender *Call // waits for it while another process holds it; nil: none
	reserver  *Call // waits or contends, and keeps it from later calls; nil: none
	foreign   bool  // another process had it, and no call of this one was granted it since

	// The calls that wait or run, in the order of arrival.
	first, last *entry

	parked parkedCalls // a heap in the order of arrival
	// The calls that were granted it before one that arrived earlier: the last of their arrivals,
	// at most maxOvertaken, in order.
	overtakers []uint64
	passing    Passing
}

// entry is a call's entry in the queue of one key.
type entry struct {
	call       *Call
	key        *key
	prev, next *entry
}

// unlink takes e out of its queue.
func (e *entry) unlink() {
	k := e.key
	if e.prev == nil {
		k.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		k.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
}

// firstWaiting returns the first entry of a call that does not run; nil if there is none. At most
// one call runs with a key.
func (k *key) firstWaiting() *entry {
	e := k.first
	if e != nil && e.call == k.owner {
		e = e.next
	}
	return e
}

// availableTo reports whether c may have k, as far as this process is concerned.
func (k *key) availableTo(c *Call) bool {
	return (k.owner == nil || k.owner == c) && (k.contender == nil || k.contender == c) &&
		(k.reserver == nil || k.reserver.arrival >= c.arrival)
}

// noteOvertaking notes that c, which is granted k, arrived after a call that waits for k.
func (k *key) noteOvertaking(c *Call) {
	if k.first == nil || k.first.call.arrival > c.arrival {
		return
	}
	i, _ := slices.BinarySearch(k.overtakers, c.arrival)
	k.overtakers = slices.Insert(k.overtakers, i, c.arrival)
	if len(k.overtakers) > maxOvertaken {
		k.overtakers = slices.Delete(k.overtakers, 0, 1)
	}
}

// overtakenSince reports whether maxOvertaken calls that arrived after this arrival were granted k
// before a call that arrived earlier, and still waits for k.
func (k *key) overtakenSince(arrival uint64) bool {
	return len(k.overtakers) == maxOvertaken && k.overtakers[0] > arrival
}

// join puts c at the end of the queue of its i-th key. mu is held.
func (q *Queue) join(c *Call, i int, name string) {
	k := q.keys[name]
	if k == nil {
		if q.keys == nil {
			q.keys = make(map[string]*key)
		}
		k = q.newKey(name)
		q.keys[name] = k
		q.peak = max(q.peak, len(q.keys))
		q.known.Store(int64(len(q.keys)))
	}
	e := &c.entries[i]
	*e = entry{call: c, key: k, prev: k.last}
	if k.last == nil {
		k.first = e
	} else {
		k.last.next = e
	}
	k.last = e
}

// newKey returns a key without calls, if possible one whose memory was used before. mu is held.
func (q *Queue) newKey(name string) *key {
	last := len(q.spare) - 1
	if last < 0 {
		return &key{name: name}
	}
	k := q.spare[last]
	q.spare[last], q.spare = nil, q.spare[:last]
	k.name = name
	return k
}

// forget makes c ready for the next Enter, and drops the keys that nobody wants. mu is held.
func (q *Queue) forget(c *Call) {
	for i := range c.entries {
		k := c.entries[i].key
		switch {
		case k.owner != nil:
		case k.first != nil:
			k.passing = Passing{}
		default:
			delete(q.keys, k.name)
			if *k = (key{}); len(q.spare) < maxSpare {
				q.spare = append(q.spare, k)
			}
		}
	}
	*c = Call{Caller: c.Caller}
	q.shrink()
	q.known.Store(int64(len(q.keys)))
}

// shrink gives back the memory of a map that was large and has few keys left. mu is held.
func (q *Queue) shrink() {
	if q.peak < minPeak || len(q.keys) > q.peak/shrinkRatio {
		return
	}
	rest := make(map[string]*key, len(q.keys))
	maps.Copy(rest, q.keys)
	q.keys, q.peak = rest, len(rest)
}
