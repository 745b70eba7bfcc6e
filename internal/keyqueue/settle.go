package keyqueue

// changes are what callers are notified of after a change, without locks held.
type changes struct {
	quiet       *Call // it is not notified of its turn: the change returns that it runs; nil: none
	noReserving bool  // no call may reserve more
	notices     []notice
}

// notice is news for a caller.
type notice struct {
	caller Caller
	news   News
}

// change makes a change under mu, and then tells the callers. Then it looks at no call, since calls
// may change meanwhile.
func (q *Queue) change(by func(s *changes)) {
	var s changes
	q.mu.Lock()
	by(&s)
	q.mu.Unlock()
	for _, c := range s.notices {
		c.caller.Notify(c.news)
	}
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
	k.parked.add(c)
}

// run gives c its keys. mu is held.
func (q *Queue) run(c *Call, s *changes) {
	c.state = running
	for _, k := range c.keys {
		k.owner, k.contender, k.reserver = c, nil, nil
	}
	if c != s.quiet {
		s.notices = append(s.notices, notice{c.Caller, Turn})
	}
}

// reserve reserves those free keys of c that it may reserve. mu is held.
func (q *Queue) reserve(c *Call, s *changes) {
	if s.noReserving || len(c.keys) == 1 {
		return
	}
	all, below := c.mayReserve()
	more := false
	for _, k := range c.keys {
		if k.reserver != c && k.contender == nil && k.availableTo(c) &&
			(all || k.name < below) {
			k.reserver, more = c, true
		}
	}
	if more {
		s.notices = append(s.notices, notice{c.Caller, Reserving})
	}
}

// settle considers the calls that are parked at those of these keys that are free, in the order of
// arrival, until no further one can have one of them. mu is held.
func (q *Queue) settle(freed []*key, s *changes) {
	for {
		var next *Call
		for _, k := range freed {
			c := k.parked.first()
			if c != nil && k.availableTo(c) && (next == nil || c.arrival < next.arrival) {
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

// unpark takes c from the key at which it is parked. mu is held.
func (q *Queue) unpark(c *Call) {
	if c.parkedAt != nil {
		c.parkedAt.parked.remove(c)
		c.parkedAt = nil
	}
}
