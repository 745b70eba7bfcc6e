package lockpipe

import (
	"time"

	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

const (
	// The process hands a lease from holder to holder for at most this time, and this often. Then
	// it releases the lease, so that other processes can acquire it.
	maxHandoffTime = 50 * time.Millisecond
	maxHandoffs    = 1000
	// yieldDelay is how long the callers of this process do not try after such a release: about the
	// time that other processes need to notice it and to acquire the lease.
	yieldDelay = 1500 * time.Microsecond
	// A waiter accepts a lease without an extension if this many quarters of the validity that it
	// asked for are left.
	minRemainingQuarters = 3
)

// handoffChain is what leases have in common that were handed off one after another, without a
// release.
type handoffChain struct {
	started  time.Time // when the first lease was handed off
	handoffs int
	// The number of the latest lease, of those that the claim reserved; 0 if there are none.
	fence      int64
	wantsFence bool // the latest lease was acquired with fencing; its receiver sets it
}

// handoff is a lease on its way from one holder to the next.
type handoff struct {
	claim     *multiplex.Claim
	until     time.Time
	suspended time.Duration // for how long the machine had been when until was computed
	chain     *handoffChain
}

// timeLeft returns for how long the lease of a handoff is still valid.
func (c *Client) timeLeft(h *handoff) time.Duration { return c.leases.Left(h.until, h.suspended) }

// handOff hands the lease to the caller of this process that is next for the same keys, if there is
// one. It reports whether the lease was handed off, now or before. At that moment the old lease is
// over, and no call on it can change anything any more.
func (c *Client) handOff(l *Lease) bool {
	if c.queue.Waiting() == 0 || l.chain.exhausted() || !l.claim.Certain() {
		return l.chain != nil && l.term.HandedOff()
	}
	fence, ok := l.nextFence()
	if !ok {
		return l.term.HandedOff()
	}
	select {
	case <-c.closing:
		return l.term.HandedOff()
	default:
	}
	key := [1]string{queueKey(l.Keys())}
	return l.term.HandOff(func(until time.Time, suspended time.Duration) bool {
		return c.queue.Offer(key[:], &handoff{l.claim, until, suspended, l.chain.next(fence)})
	})
}

// exhausted reports whether the lease must be released now.
func (t *handoffChain) exhausted() bool {
	return t != nil && (t.handoffs >= maxHandoffs || time.Since(t.started) >= maxHandoffTime)
}

// next returns the chain after one more handoff. A nil chain has none yet.
func (t *handoffChain) next(fence int64) *handoffChain {
	if t == nil {
		return &handoffChain{started: time.Now(), handoffs: 1, fence: fence}
	}
	return &handoffChain{started: t.started, handoffs: t.handoffs + 1, fence: fence}
}

// acceptHandoff makes a lease of a handoff. If too little of its time is left, it starts an
// extension, which must succeed before the lease may be used. Without a lease the caller can't keep
// what it was handed: for instance, it wants a fence and the nodes know of none.
func (c *Client) acceptHandoff(h *handoff, o callOptions) (*Lease, *multiplex.Attempt) {
	if h.chain.wantsFence = o.fencing; o.fencing && h.chain.fence == 0 {
		return nil, nil
	}
	l := &Lease{client: c, claim: h.claim, chain: h.chain}
	grant := lease.Grant{
		Sent: time.Now(), Suspended: h.suspended, TTL: o.ttl, Until: h.until, MaxHold: o.maxHold,
	}
	switch left, asked := c.timeLeft(h), lease.Validity(o.ttl); {
	case left > asked:
		h.claim.MarkOutlives()
	case left < asked*minRemainingQuarters/4:
		return l, c.mux.Extend(h.claim, o.ttl, grant.Sent.Add(left), 0, h.claim.Len())
	}
	if !c.beginTerm(l, &o, grant) {
		return nil, nil
	}
	return l, nil
}

// beginTerm begins the term of a lease that was handed off, and reports whether it could.
func (c *Client) beginTerm(l *Lease, o *callOptions, grant lease.Grant) bool {
	if c.leases.Hold(&l.term, l, grant) != nil {
		return false
	}
	c.handovers.Add(1)
	c.metrics.grant(o, l.term.Began())
	return true
}

// forwardHandoff hands a lease to the next waiter because its receiver does not want it any more.
// If there is none, it releases the lease.
func (c *Client) forwardHandoff(queueKey []string, h *handoff) {
	if !c.queue.Offer(queueKey, h) {
		c.mux.Release(h.claim, h.claim.Len())
		c.queue.NotifyFree(queueKey, time.Now())
	}
}

// notifyWaiters notifies the calls that wait for the keys of a lease that was released.
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
