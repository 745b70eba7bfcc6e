package locker

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/internal/stats"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Attempt is a try to acquire that is under way. The zero value is none.
type Attempt struct {
	lease     *Lease
	of        parts.Attempt
	suspended time.Duration // for how long the machine had been before it was sent
}

// Suspended returns for how long the machine was suspended until now: see lease.Grant.
func (k *Locker) Suspended() time.Duration { return k.several[0].Suspended() }

// newAttempt returns an attempt that is not sent yet: see Acquire.
func (k *Locker) newAttempt(keys []string, o *Options, retry *FenceRetry, shared bool) Attempt {
	suspended := k.Suspended() // before the time from which the validity counts
	return Attempt{
		lease: k.newLease(o, keys, retry.floor, o.fencesWanted(shared)), suspended: suspended,
	}
}

// Acquire starts an attempt on all nodes at once, with a token of its own. retry is of the call,
// and shared says that other calls of the process wait for the keys. batchKeys is how many keys are
// asked for together.
func (k *Locker) Acquire(keys []string, o *Options, retry *FenceRetry, shared bool,
	batchKeys int,
) Attempt {
	a := k.newAttempt(keys, o, retry, shared)
	a.of = a.lease.claim.Acquire(o.TTL, batchKeys)
	return a
}

// HoldBy has a call of the queue own the keys of the lease, if the attempt succeeds.
func (a *Attempt) HoldBy(turn *keyqueue.Call) { a.lease.holder = turn }

// IsPending reports whether there is an attempt.
func (a *Attempt) IsPending() bool { return a.of != nil }

// Token returns the token of the attempt.
func (a *Attempt) Token() string { return a.lease.claim.Token() }

// Wait returns the outcome of the attempt.
func (a *Attempt) Wait(ctx context.Context) multiplex.Outcome { return a.of.Wait(ctx, time.Time{}) }

// Finish begins the term of the lease if a quorum granted the attempt, and ctx has not ended.
func (k *Locker) Finish(ctx context.Context, a *Attempt, o *Options, votes multiplex.Outcome) (
	*Lease, *Failure,
) {
	if votes.Result != multiplex.Won {
		f := &Failure{Votes: votes, Closing: k.IsClosing()}
		k.Outcomes.Attempt(f.outcome(), time.Since(a.of.Sent()))
		return nil, f
	}
	l := a.lease
	grant := lease.Grant{Sent: a.of.Sent(), Suspended: a.suspended, TTL: o.TTL, MaxHold: o.MaxHold}
	err := ctx.Err()
	if err == nil {
		err = k.hold(l, o, grant)
	}
	if err == nil {
		if l.claim.Adopts() {
			l.claim.Adopted()
		}
		k.countGranted(o, l.term.Began(), a.of.Sent())
		return l, nil
	}
	l.claim.Release(l.claim.Len())
	if err != lease.ErrExpired {
		f := &Failure{End: err}
		k.Outcomes.Attempt(f.outcome(), time.Since(a.of.Sent()))
		return nil, f
	}
	k.Outcomes.Attempt(stats.Late, time.Since(a.of.Sent()))
	passed := time.Since(a.of.Sent()) + k.Suspended() - a.suspended
	return nil, &Failure{Votes: votes, Passed: passed, TTL: o.TTL}
}

// cleanUp waits until the nodes have answered the release of an attempt for so many keys that
// failed. If it is not confirmed, at worst the next attempt is refused.
func (a *Attempt) cleanUp(ctx context.Context, keys int) {
	_ = a.lease.claim.Release(keys).Wait(ctx, time.Time{})
}
