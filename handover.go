package lockpipe

import (
	"time"

	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

const (
	// A lease is handed from holder to holder within the process for so long, and so often; then it
	// is released, so that other processes get their turn.
	maxHandoffTime = 50 * time.Millisecond
	maxHandoffs    = 1000
	// turnPause is how long the callers of this process stay away then: about what others need to
	// notice and to take it.
	yieldDelay = 1500 * time.Microsecond
	// enough is how much of the validity that a waiter asked for must be left for it to be content,
	// in quarters.
	minRemainingQuarters = 3
)

// turns is what leases have in common that were handed on without a release.
type handoffChain struct {
	started  time.Time // when the first of them was acquired, or handed over first
	handoffs int       // how often it was handed over
	// Of the last of them, among those that the claim reserved; 0 where there are none.
	fence      int64
	wantsFence bool // whether the last of them asked for it; set by its receiver
}

// gift is a lease on its way from one holder to the next.
type handoff struct {
	claim     *multiplex.Claim
	until     time.Time
	suspended time.Duration // for how long the machine had been when until was computed
	chain     *handoffChain
}

// left is how long the lease of a gift is valid yet.
func (c *Client) timeLeft(g *handoff) time.Duration { return c.leases.Left(g.until, g.suspended) }

// handOver passes the lease to the caller of this process that waits for the same keys, if there is
// one whose turn it is, and reports whether it was passed on, now or before. At that moment the old
// lease is over, and no call on it can touch anything any more.
func (c *Client) handOff(l *Lease) bool {
	if c.queue.Waiting() == 0 || l.chain.exhausted() || !l.claim.Clean() {
		return l.chain != nil && l.term.HandedOff()
	}
	number, left := l.nextFence()
	if !left {
		return l.term.HandedOff()
	}
	select {
	case <-c.closing:
		return l.term.HandedOff()
	default:
	}
	room := [1]string{queueKey(l.Keys())}
	return l.term.HandOff(func(until time.Time, suspended time.Duration) bool {
		return c.queue.Offer(room[:], &handoff{l.claim, until, suspended, l.chain.next(number)})
	})
}

func (t *handoffChain) exhausted() bool {
	return t != nil && (t.handoffs >= maxHandoffs || time.Since(t.started) >= maxHandoffTime)
}

func (t *handoffChain) next(number int64) *handoffChain {
	if t == nil {
		return &handoffChain{started: time.Now(), handoffs: 1, fence: number}
	}
	return &handoffChain{started: t.started, handoffs: t.handoffs + 1, fence: number}
}

// accept makes a lease of a gift. Where too little of its time is left, an extension is sent, which
// has to succeed first. Without a lease it can't be kept, as where the nodes know of no fence for
// it and it is to have one.
func (c *Client) acceptHandoff(g *handoff, o callOptions) (*Lease, *multiplex.Attempt) {
	if g.chain.wantsFence = o.fencing; o.fencing && g.chain.fence == 0 {
		return nil, nil
	}
	l := &Lease{client: c, claim: g.claim, chain: g.chain}
	grant := lease.Grant{
		Sent: time.Now(), Suspended: g.suspended, TTL: o.ttl, Until: g.until, MaxHold: o.maxHold,
	}
	switch left, asked := c.timeLeft(g), lease.Validity(o.ttl); {
	case left > asked:
		g.claim.Outlast()
	case left < asked*minRemainingQuarters/4:
		return l, c.mux.Extend(g.claim, o.ttl, grant.Sent.Add(left), 0, g.claim.Len())
	}
	if !c.beginTerm(l, &o, grant) {
		return nil, nil
	}
	return l, nil
}

// keep begins the term of a lease that was handed over, and reports whether it could.
func (c *Client) beginTerm(l *Lease, o *callOptions, grant lease.Grant) bool {
	if c.leases.Hold(&l.term, l, grant) != nil {
		return false
	}
	c.handovers.Add(1)
	c.meters.grant(o, l.term.Began())
	return true
}

// dispose passes a gift on that its receiver does not want any more.
func (c *Client) forwardHandoff(room []string, g *handoff) {
	if !c.queue.Offer(room, g) {
		c.mux.Release(g.claim, g.claim.Len())
		c.queue.NotifyFree(room, time.Now())
	}
}

// freed tells those who wait for the keys of a lease that was released.
func (c *Client) notifyWaiters(l *Lease) {
	if c.queue.Waiting() == 0 {
		return
	}
	from := time.Now()
	if l.chain.exhausted() {
		from = from.Add(yieldDelay)
	}
	c.queue.NotifyFree([]string{queueKey(l.Keys())}, from)
}
