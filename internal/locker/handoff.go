package locker

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/lease"
)

const (
	// maxFencedHandoffs is how often a lease with fences is handed from holder to holder at most:
	// for so many more its claim reserves numbers.
	maxFencedHandoffs = 1000
	// A waiter accepts a lease if this many quarters of the validity that it asked for are left. A
	// new one costs as much as an extension: one trip.
	minRemainingQuarters = 3
	// passTime is for how long keys go from call to call of this process: see mustYield.
	passTime = 50 * time.Millisecond
)

// Handoff is a lease on its way from one holder to the next.
type Handoff struct {
	claim *parts.Claim
	until lease.Instant
	fence int64 // the number of the next holder; 0: there are none
}

// successor returns the call of this process that is next for the same keys, if there is one and
// the lease may be handed to it. Its turn has come: keyqueue.Call.Begin must follow. A second call
// for the same lease returns nil.
func (k *Locker) successor(l *Lease) *keyqueue.Call {
	if k.Queue.Waiting() == 0 || !l.claim.Certain() || k.IsClosing() {
		return nil
	}
	if _, ok := l.nextFence(); !ok {
		return nil
	}
	if l.holder == nil {
		// It did not wait, so calls that came later contend as with another process.
		keys := l.Keys()
		next := k.Queue.Contender(keys)
		if next == nil || k.RetryTurn(next, keys) {
			return next
		}
		next.Caller.Notify(keyqueue.Released) // the queue says when its turn comes, if not now
		return nil
	}
	now := time.Now()
	if k.mustYield(l, now) {
		return nil
	}
	return k.Queue.Successor(l.holder, now)
}

// RetryTurn is Queue.Retry for a call with these keys, for any goroutine. If the call waits for
// other calls of this process then, it leaves the line in which it is.
func (k *Locker) RetryTurn(c *keyqueue.Call, keys []string) (runs bool) {
	if runs = k.Queue.Retry(c); !runs {
		k.LeaveLines(keys...)
	}
	return runs
}

// mustYield reports whether it is time to give other processes a chance to take the keys of a lease
// that go from call to call of this process. If others are known to want them, it is time when all
// calls have had them that waited when the first call here passed them on.
func (k *Locker) mustYield(l *Lease, now time.Time) bool {
	since, served, _ := k.Queue.Passing(l.holder)
	return !since.IsZero() && (now.Sub(since) >= passTime ||
		served && k.Lines.Any() && k.Lines.Contended(l.Keys(), now) != "")
}

// handOff hands the lease to the next call, and reports whether it could. Then the old lease is
// over, and no call on it can change anything any more.
func (l *Lease) handOff(next *keyqueue.Call) bool {
	fence, _ := l.nextFence()
	until, ok := l.term.HandOff()
	if ok {
		next.Begin(&Handoff{l.claim, until, fence})
	}
	return ok
}

// Accept makes the handed lease that of a call that has its turn. It returns nil, and the lease is
// released, if the call can't keep it: its ctx has ended, too little of its time is left, or it
// wants a fence and the nodes know of none.
func (k *Locker) Accept(ctx context.Context, h *Handoff, o *Options) *Lease {
	l := &Lease{locker: k, claim: h.claim, fence: h.fence, holder: o.Turn}
	if !o.Fencing {
		l.fence = -h.fence
	}
	left, asked := -k.clock.Since(h.until), lease.Validity(o.TTL)
	if left > asked {
		h.claim.MarkOutlives()
	}
	if ctx.Err() != nil || o.Fencing && h.fence == 0 || left < asked*minRemainingQuarters/4 ||
		k.hold(l, o, lease.Grant{
			Sent: k.clock.Now(), TTL: o.TTL, Until: h.until, MaxHold: o.MaxHold,
		}) != nil {
		h.claim.Release(h.claim.Len())
		return nil
	}
	k.Handovers.Add(1)
	k.Outcomes.Grants[o.Kind].Observe(l.term.Began().Sub(o.Start))
	return l
}

// passOn lets the calls of this process have the keys of a lease that is over. next is its
// successor, whose turn has come; nil if there is none.
func (k *Locker) passOn(l *Lease, next *keyqueue.Call) {
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
	if k.mustYield(l, now) { // before the next call gets its turn
		k.Queue.Yield(l.holder, now)
		for _, key := range l.Keys() {
			k.Lines.Leave(key)
		}
	}
	k.Queue.Leave(l.holder, now)
	if k.Lines.Any() {
		k.LeaveLines(l.Keys()...)
	}
}

// LeaveLines has the process leave the lines for these keys, but for those that a call of it uses.
func (k *Locker) LeaveLines(keys ...string) {
	for _, key := range keys {
		if k.Lines.Any() && !k.Queue.Uses(key) {
			k.Lines.Leave(key)
		}
	}
}

// notifyReleased has the calls that contend for the keys of a lease try again. It is called again
// when the nodes have answered the release: an attempt may have overtaken it on some of them.
func (k *Locker) notifyReleased(l *Lease) {
	if k.Queue.Waiting() > 0 {
		k.Queue.Released(l.Keys())
	}
}
