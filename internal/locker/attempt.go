package locker

import (
	"context"

	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/internal/stats"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// TryAcquire makes one try for all keys.
func (k *Locker) TryAcquire(ctx context.Context, keys []string, o *Options) (*Lease, *Failure) {
	return k.Call(ctx, o, func() (*Lease, *Failure) { return k.Try(ctx, keys, o) })
}

// Call counts a call in and out, and how it ended.
func (k *Locker) Call(ctx context.Context, o *Options, acquire func() (*Lease, *Failure)) (
	*Lease, *Failure,
) {
	if f := k.Begin(ctx, o.Kind, 1); f != nil {
		return nil, f
	}
	defer k.End()
	l, f := acquire()
	return l, k.Count(ctx, o.Kind, f)
}

// Try makes one try over all nodes, with a token of its own. With fencing it makes as many as the
// clock needs to catch up.
func (k *Locker) Try(ctx context.Context, keys []string, o *Options) (*Lease, *Failure) {
	var a attempt
	for {
		k.acquire(&a, keys, o, len(keys))
		l, f := k.finish(ctx, &a, o)
		if o.Count > 0 && f.IsHeld() {
			a.cleanUp(ctx, len(keys)) // the next look must not see what it left
		}
		if f == nil || !o.Fencing || !a.mayRaiseFence() || ctx.Err() != nil {
			return l, f
		}
	}
}

// attempt is a try to acquire. The call makes it again if its fences were too low. The zero value
// was not made yet.
type attempt struct {
	lease *Lease
	of    parts.Attempt
	sent  lease.Instant // or earlier

	floor  int64 // its fences are above it
	raised int   // how often in a row it was made again because its fences were too low
}

// prepare gives an attempt a new token, and does not send it yet: see acquire.
func (k *Locker) prepare(a *attempt, keys []string, o *Options) {
	a.sent = k.clock.Now() // before the fences are taken
	a.lease = k.newLease(o, keys, a.floor, k.fencesWanted(keys, o))
}

// acquire starts an attempt on all nodes at once, with a token of its own. batchKeys is how many
// keys are asked for together.
func (k *Locker) acquire(a *attempt, keys []string, o *Options, batchKeys int) {
	k.prepare(a, keys, o)
	a.of = a.lease.claim.Acquire(o.TTL, batchKeys)
}

// finish begins the term of the lease if a quorum granted the attempt, and ctx has not ended.
func (k *Locker) finish(ctx context.Context, a *attempt, o *Options) (*Lease, *Failure) {
	votes := a.of.Wait(ctx)
	if votes.Result != multiplex.Won {
		f := &Failure{Votes: votes, Closing: k.IsClosing(), Token: a.lease.Token()}
		k.Outcomes.Attempts[f.outcome()].Observe(k.clock.Since(a.sent))
		return nil, f
	}
	l := a.lease
	grant := lease.Grant{Sent: a.sent, TTL: o.TTL, MaxHold: o.MaxHold}
	err := ctx.Err()
	if err == nil {
		err = k.hold(l, o, grant)
	}
	if err == nil {
		if l.claim.Adopts() {
			l.claim.Adopted()
		}
		k.countGranted(o, l.term.Began(), k.clock.Time(a.sent))
		return l, nil
	}
	l.claim.Release(l.claim.Len())
	if err != lease.ErrExpired {
		f := &Failure{End: err}
		k.Outcomes.Attempts[f.outcome()].Observe(k.clock.Since(a.sent))
		return nil, f
	}
	passed := k.clock.Since(a.sent)
	k.Outcomes.Attempts[stats.Late].Observe(passed)
	return nil, &Failure{Votes: votes, Passed: passed, TTL: o.TTL}
}

// cleanUp waits until the nodes have answered the release of an attempt for so many keys that
// failed. If it is not confirmed, at worst the next attempt is refused.
func (a *attempt) cleanUp(ctx context.Context, keys int) {
	_ = a.lease.claim.Release(keys).Wait(ctx)
}
