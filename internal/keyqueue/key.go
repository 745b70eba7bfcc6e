package keyqueue

import (
	"cmp"
	"slices"
)

// maxOvertaken is how many calls that arrived later are granted a key before a call, until that
// call may reserve its keys although others are before it in the queue of this key.
const maxOvertaken = 8

// key is a key that a call waits for or has.
type key struct {
	name      string
	owner     *Call // runs with it or holds it; nil: none
	contender *Call // waits for it while another process holds it; nil: none
	reserver  *Call // waits or contends, and keeps it from later calls; nil: none
	foreign   bool  // another process had it, and no call of this one was granted it since

	queue  byArrival // the calls that wait or run
	parked byArrival // those of them that are parked at it
	// The calls that were granted it before one that arrived earlier: the last of their arrivals,
	// at most maxOvertaken, in order.
	overtakers []uint64
	passing    passing
}

// byArrival has calls in the order of arrival. Most come at the end and leave at the front.
type byArrival []*Call

// find returns the place of a call that arrived then, and whether it is there.
func (all byArrival) find(arrival uint64) (i int, found bool) {
	return slices.BinarySearchFunc(all, arrival, func(c *Call, arrival uint64) int {
		return cmp.Compare(c.arrival, arrival)
	})
}

func (all *byArrival) add(c *Call) {
	i, _ := all.find(c.arrival)
	*all = slices.Insert(*all, i, c)
}

// remove takes c out, if it is there. The first call leaves without a move of the others.
func (all *byArrival) remove(c *Call) {
	switch i, found := all.find(c.arrival); {
	case !found:
	case len(*all) == 1:
		*all = nil
	case i == 0:
		(*all)[0], *all = nil, (*all)[1:]
	default:
		*all = slices.Delete(*all, i, i+1)
	}
}

// first returns the call that arrived first; nil if there is none.
func (all byArrival) first() *Call {
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// firstWaiting returns the first call that does not run; nil if there is none. At most one call
// runs with a key.
func (k *key) firstWaiting() *Call {
	if c := k.queue.first(); c == nil || c != k.owner {
		return c
	}
	return k.queue[1:].first()
}

// availableTo reports whether c may have k, as far as this process is concerned.
func (k *key) availableTo(c *Call) bool {
	return (k.owner == nil || k.owner == c) && (k.contender == nil || k.contender == c) &&
		(k.reserver == nil || k.reserver.arrival >= c.arrival)
}

// noteOvertaking notes that c, which is granted k, arrived after a call that waits for k.
func (k *key) noteOvertaking(c *Call) {
	if first := k.queue.first(); first == nil || first.arrival > c.arrival {
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

// join puts c at the end of the queue of a key, and returns the key. mu is held.
func (q *Queue) join(c *Call, name string) *key {
	k := q.keys[name]
	if k == nil {
		if q.keys == nil {
			q.keys = make(map[string]*key)
		}
		k = &key{name: name}
		q.keys[name] = k
		q.known.Store(int64(len(q.keys)))
	}
	k.queue.add(c)
	return k
}

// forget makes c ready for the next Enter, and drops the keys that nobody wants. mu is held.
func (q *Queue) forget(c *Call) {
	for _, k := range c.keys {
		switch {
		case k.owner != nil:
		case len(k.queue) > 0:
			k.passing = passing{}
		default:
			delete(q.keys, k.name)
		}
	}
	c.wish = wish{}
	q.known.Store(int64(len(q.keys)))
}
