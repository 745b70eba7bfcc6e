package lockpipe

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/lease"
)

const (
	// maxHandoffs is how often a lease is handed from holder to holder at most.
	maxHandoffs = 1000
	// A waiter accepts a lease without an extension if this many quarters of the validity that it
	// asked for are left.
	minRemainingQuarters = 3
)

// handoffChain is what leases have in common that were handed off one after another, without a
// release.
type handoffChain struct {
	handoffs int
	// The number of the latest lease, of those that the claim reserved; 0 if there are none.
	fence      int64
	wantsFence bool // the latest lease was acquired with fencing; its receiver sets it
}

// handoff is a lease on its way from one holder to the next.
type handoff struct {
	claim     *parts.Claim
	until     time.Time
	suspended time.Duration // for how long the machine had been when until was computed
	chain     *handoffChain
}

// timeLeft returns for how long the lease of a handoff is still valid.
func (c *Client) timeLeft(h *handoff) time.Duration {
	return c.managers[0].Left(h.until, h.suspended)
}

// successor returns the call of this process that is next for the same keys, if there is one and
// the lease may be handed to it. Its turn has come: begin must follow. A second call for the same
// lease returns nil.
func (c *Client) successor(l *Lease) *waitingCall {
	if c.queue.Waiting() == 0 || l.chain != nil && l.chain.handoffs >= maxHandoffs ||
		!l.claim.Certain() || c.endReason(context.Background()) != nil {
		return nil
	}
	if _, ok := l.nextFence(); !ok {
		return nil
	}
	if l.holder == nil {
		// It did not wait, so calls that came later contend as with another process.
		if next := c.queue.Contender(l.Keys()); next != nil {
			return next.(*waitingCall).takeTurn()
		}
		return nil
	}
	now := time.Now()
	if mustYield(c.queue.Passing(l.holder), now) {
		return nil
	}
	if next := c.queue.Successor(l.holder, now); next != nil {
		return next.(*waitingCall)
	}
	return nil
}

// handOff hands the lease to the next call, and reports whether it could. Then the old lease is
// over, and no call on it can change anything any more.
func (l *Lease) handOff(next *waitingCall) bool {
	fence, _ := l.nextFence()
	var h *handoff
	l.term.HandOff(func(until time.Time, suspended time.Duration) bool {
		h = &handoff{l.claim, until, suspended, l.chain.next(fence)}
		return true
	})
	if h == nil { // it is over, or is being extended
		return false
	}
	next.begin(h)
	return true
}

// next returns the chain after one more handoff. A nil chain has none yet.
func (t *handoffChain) next(fence int64) *handoffChain {
	if t == nil {
		return &handoffChain{handoffs: 1, fence: fence}
	}
	return &handoffChain{handoffs: t.handoffs + 1, fence: fence}
}

// accept makes the handed lease that of the call, or starts an extension of it. It returns false if
// the call can't keep the lease.
func (s *waitingCall) accept(h *handoff) bool {
	l, a := s.client.acceptHandoff(h, s.turn, s.opts)
	if a != nil {
		s.pending = pendingAttempt{lease: l, attempt: a, handoff: h}
	} else {
		s.granted = l
	}
	return l != nil
}

// acceptHandoff makes a lease of a handoff. If too little of its time is left, it starts an
// extension, which must succeed before the lease may be used. Without a lease the caller can't keep
// what it was handed: for instance, it wants a fence and the nodes know of none.
func (c *Client) acceptHandoff(h *handoff, turn *keyqueue.Call, o callOptions) (*Lease,
	parts.Attempt,
) {
	if h.chain.wantsFence = o.fencing; o.fencing && h.chain.fence == 0 {
		return nil, nil
	}
	l := &Lease{client: c, claim: h.claim, chain: h.chain, holder: turn}
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
	if c.leases(l).Hold(&l.term, l, grant) != nil {
		return false
	}
	c.handovers.Add(1)
	c.outcomes.grant(o, l.term.Began())
	c.queue.Hold(l.holder, l.Until())
	return true
}

// discardHandoff releases a lease that was handed off and can't be kept.
func (c *Client) discardHandoff(h *handoff) { c.mux.Release(h.claim, h.claim.Len()) }

// passOn lets the calls of this process have the keys of a lease that is over. next is its
// successor, whose turn has come; nil if there is none.
func (c *Client) passOn(l *Lease, next *waitingCall) {
	switch {
	case next != nil:
		next.begin(nil)
	case l.holder != nil:
		c.queue.Leave(l.holder, time.Now())
	default:
		c.notifyReleased(l)
	}
}

// notifyReleased has the calls that contend for the keys of a lease try again. It is called again
// when the nodes have answered the release: an attempt may have overtaken it on some of them.
func (c *Client) notifyReleased(l *Lease) {
	if c.queue.Waiting() > 0 {
		c.queue.Released(l.Keys())
	}
}
