package locker

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

const (
	// maxFencedHandoffs is how often a lease with fences is handed from holder to holder at most:
	// for so many more its claim reserves numbers.
	maxFencedHandoffs = 1000
	// A waiter accepts a lease without an extension if this many quarters of the validity that it
	// asked for are left.
	minRemainingQuarters = 3
	// passTime is for how long keys go from call to call of this process: see MustYield.
	passTime = 50 * time.Millisecond
)

// NextCall is a call of this process that waits for keys, as Locker.Queue knows it.
type NextCall interface {
	keyqueue.Caller
	// TakeTurn ends the contention of the call with another process, and reports whether its turn
	// has come: Begin must follow.
	TakeTurn() bool
	// Begin begins the turn of the call, with the lease that it is handed; nil: it is handed none.
	Begin(h *Handoff)
}

// Handoff is a lease on its way from one holder to the next.
type Handoff struct {
	claim     *parts.Claim
	until     time.Time
	suspended time.Duration // for how long the machine had been when until was computed
	fence     int64         // the number of the next holder; 0: there are none
}

// timeLeft returns for how long the lease of a handoff is still valid.
func (k *Locker) timeLeft(h *Handoff) time.Duration {
	return k.several[0].Left(h.until, h.suspended)
}

// successor returns the call of this process that is next for the same keys, if there is one and
// the lease may be handed to it. Its turn has come: Begin must follow. A second call for the same
// lease returns nil.
func (k *Locker) successor(l *Lease) NextCall {
	if k.Queue.Waiting() == 0 || !l.claim.Certain() || k.IsClosing() {
		return nil
	}
	if _, ok := l.nextFence(); !ok {
		return nil
	}
	if l.holder == nil {
		// It did not wait, so calls that came later contend as with another process.
		if next, ok := k.Queue.Contender(l.Keys()).(NextCall); ok && next.TakeTurn() {
			return next
		}
		return nil
	}
	now := time.Now()
	if k.MustYield(l.holder, l.Keys, now) {
		return nil
	}
	next, _ := k.Queue.Successor(l.holder, now).(NextCall)
	return next
}

// MustYield reports whether it is time to give other processes a chance to take the keys of a call
// that go from call to call of this process. If others are known to want them, it is time when all
// calls have had them that waited when the first call here passed them on.
func (k *Locker) MustYield(turn *keyqueue.Call, keys func() []string, now time.Time) bool {
	switch p := k.Queue.Passing(turn); {
	case p.Since.IsZero():
		return false
	case now.Sub(p.Since) >= passTime:
		return true
	}
	return k.Lines.Any() && k.Lines.Contended(keys(), now) != "" && k.Queue.Served(turn)
}

// handOff hands the lease to the next call, and reports whether it could. Then the old lease is
// over, and no call on it can change anything any more.
func (l *Lease) handOff(next NextCall) bool {
	fence, _ := l.nextFence()
	until, suspended, ok := l.term.HandOff()
	if ok {
		next.Begin(&Handoff{l.claim, until, suspended, fence})
	}
	return ok
}

// Accept makes the handed lease that of a call, which is in the queue with this turn. If too little
// of its time is left, it starts an extension instead, for FinishHandoff, which must succeed before
// lease may be used. If the call can't keep the lease, it gets neither, and the lease is
// released: its ctx has ended, or it wants a fence and the nodes know of none.
func (k *Locker) Accept(ctx context.Context, h *Handoff, turn *keyqueue.Call, o *Options) (
	held *Lease, a Attempt,
) {
	if ctx.Err() != nil || o.Fencing && h.fence == 0 {
		k.discardHandoff(h)
		return nil, a
	}
	l := &Lease{locker: k, claim: h.claim, fence: h.fence, holder: turn}
	if !o.Fencing {
		l.fence = -h.fence
	}
	grant := lease.Grant{
		Sent: time.Now(), Suspended: h.suspended, TTL: o.TTL, Until: h.until, MaxHold: o.MaxHold,
	}
	switch left, asked := k.timeLeft(h), lease.Validity(o.TTL); {
	case left > asked:
		h.claim.MarkOutlives()
	case left < asked*minRemainingQuarters/4:
		a.lease, a.handoff = l, h
		a.of = h.claim.Extend(o.TTL, grant.Sent.Add(left), 0, h.claim.Len(), nil)
		return nil, a
	}
	if !k.beginTerm(l, o, grant) {
		k.discardHandoff(h)
		return nil, a
	}
	return l, a
}

// IsHandoff reports whether the attempt extends a lease that was handed off.
func (a *Attempt) IsHandoff() bool { return a.handoff != nil }

// FinishHandoff takes the votes on the extension of a handed lease. It returns the lease, or nil if
// the call can't keep it.
func (k *Locker) FinishHandoff(ctx context.Context, a *Attempt, o *Options,
	votes multiplex.Outcome,
) *Lease {
	grant := lease.Grant{
		Sent: a.of.Sent(), Suspended: a.handoff.suspended, TTL: o.TTL, MaxHold: o.MaxHold,
	}
	if votes.Result == multiplex.Won && ctx.Err() == nil && k.timeLeft(a.handoff) > 0 &&
		k.beginTerm(a.lease, o, grant) {
		return a.lease
	}
	k.discardHandoff(a.handoff)
	return nil
}

// beginTerm begins the term of a lease that was handed off, and reports whether it could.
func (k *Locker) beginTerm(l *Lease, o *Options, grant lease.Grant) bool {
	if k.hold(l, o, grant) != nil {
		return false
	}
	k.handovers.Add(1)
	k.Outcomes.CallGranted(o.Kind, l.term.Began().Sub(o.Start))
	k.Queue.Hold(l.holder, l.Until())
	return true
}

// discardHandoff releases a lease that was handed off and can't be kept.
func (k *Locker) discardHandoff(h *Handoff) { h.claim.Release(h.claim.Len()) }

// passOn lets the calls of this process have the keys of a lease that is over. next is its
// successor, whose turn has come; nil if there is none.
func (k *Locker) passOn(l *Lease, next NextCall) {
	switch {
	case next != nil:
		next.Begin(nil)
	case l.holder != nil:
		k.leaveQueue(l)
	default:
		k.notifyReleased(l)
	}
}

// leaveQueue takes the call of a lease that is over out of the queue. If the process yields, or no
// call of it uses a key then, it leaves the line for that.
func (k *Locker) leaveQueue(l *Lease) {
	now := time.Now()
	if !k.Lines.Any() {
		k.Queue.Leave(l.holder, now)
		return
	}
	keys, yields := l.Keys(), k.MustYield(l.holder, l.Keys, now)
	leave := func() {
		for _, key := range keys {
			if yields || !k.Queue.Uses(key) {
				k.Lines.Leave(key)
			}
		}
	}
	if yields { // before the next call gets its turn
		leave()
	}
	k.Queue.Leave(l.holder, now)
	if !yields {
		leave()
	}
}

// notifyReleased has the calls that contend for the keys of a lease try again. It is called again
// when the nodes have answered the release: an attempt may have overtaken it on some of them.
func (k *Locker) notifyReleased(l *Lease) {
	if k.Queue.Waiting() > 0 {
		k.Queue.Released(l.Keys())
	}
}
