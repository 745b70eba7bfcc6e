package keyqueue

import "container/heap"

// changes are the callers to notify after a change, without locks held.
type changes struct {
	quiet          *Call // its Run is not called: the change returns that it runs; nil: none
	noReserving    bool  // no call may reserve more
	run, reserving callers
}

// callers are often none or one: then they take no memory of the heap.
type callers struct {
	first Caller // nil: none
	more  []Caller
}

// add appends c.
func (s *callers) add(c Caller) {
	if s.first == nil {
		s.first = c
		return
	}
	s.more = append(s.more, c)
}

// each calls f with each of them.
func (s *callers) each(f func(Caller)) {
	if s.first != nil {
		f(s.first)
	}
	for _, c := range s.more {
		f(c)
	}
}

// report notifies the callers. It looks at no call, since they may change meanwhile.
func (s *changes) report() {
	s.run.each(Caller.Run)
	s.reserving.each(Caller.Reserving)
}

// consider lets c, which waits and is not parked, run if it can. Otherwise it parks c, which
// reserves what it may. mu is held.
func (q *Queue) consider(c *Call, s *changes) {
	k := c.blockedBy()
	if k == nil {
		q.run(c, s)
		return
	}
	q.park(c, k)
	q.reserve(c, s)
}

// park lets c, which waits, be considered when k is free. mu is held.
func (q *Queue) park(c *Call, k *key) {
	c.parkedAt = k
	heap.Push(&k.parked, c)
}

// run gives c its keys. mu is held.
func (q *Queue) run(c *Call, s *changes) {
	c.state = running
	for i := range c.entries {
		k := c.entries[i].key
		k.owner, k.contender, k.reserver = c, nil, nil
	}
	if c != s.quiet {
		s.run.add(c.Caller)
	}
}

// reserve reserves those free keys of c that it may reserve. mu is held.
func (q *Queue) reserve(c *Call, s *changes) {
	if s.noReserving || len(c.entries) == 1 {
		return
	}
	all, below := c.mayReserve()
	more := false
	for i := range c.entries {
		if k := c.entries[i].key; k.reserver != c && k.contender == nil && k.availableTo(c) &&
			(all || k.name < below) {
			k.reserver, more = c, true
		}
	}
	if more {
		s.reserving.add(c.Caller)
	}
}

// settle considers the calls that are parked at those of these keys that are free, in the order of
// arrival, until no further one can have one of them. mu is held.
func (q *Queue) settle(freed []entry, s *changes) {
	for {
		var next *Call
		for i := range freed {
			c := freed[i].key.candidate()
			if c != nil && (next == nil || c.arrival < next.arrival) {
				next = c
			}
		}
		if next == nil {
			return
		}
		q.unpark(next)
		q.consider(next, s)
	}
}

// candidate returns the first call that is parked at k, if k is available to it. mu is held.
func (k *key) candidate() *Call {
	if len(k.parked) == 0 || !k.availableTo(k.parked[0]) {
		return nil
	}
	return k.parked[0]
}

// unpark takes c from the key at which it is parked. mu is held.
func (q *Queue) unpark(c *Call) {
	if c.parkedAt == nil {
		return
	}
	heap.Remove(&c.parkedAt.parked, c.parkIndex)
	c.parkedAt = nil
}

// parkedCalls is a container/heap of calls by their arrival. Each call knows its index, so that it
// can leave at any time.
type parkedCalls []*Call

func (p parkedCalls) Len() int           { return len(p) }
func (p parkedCalls) Less(i, j int) bool { return p[i].arrival < p[j].arrival }

func (p parkedCalls) Swap(i, j int) {
	p[i], p[j] = p[j], p[i]
	p[i].parkIndex, p[j].parkIndex = i, j
}

// Push adds a *Call.
func (p *parkedCalls) Push(x any) {
	c := x.(*Call)
	c.parkIndex = len(*p)
	*p = append(*p, c)
}

// Pop returns the *Call that heap has put at the end. An empty heap keeps no memory.
func (p *parkedCalls) Pop() any {
	last := len(*p) - 1
	c := (*p)[last]
	(*p)[last] = nil
	if *p = (*p)[:last]; last == 0 {
		*p = nil
	}
	return c
}
