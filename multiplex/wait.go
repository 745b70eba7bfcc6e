package multiplex

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
)

// Wait returns the outcome. It waits for at most NodeTimeout for a node that has owed an answer for
// that long. It waits longer only for nodes that do not hang: they keep answering what is queued
// before this attempt, or this process is late. It waits as long as the outcome is of any use.
//
// An acquire that failed is released in the background, on every node that may have heard of it. An
// acquire whose answer came before ctx ended is granted. A release continues after Wait failed, and
// Wait may be called again for it.
func (a *Attempt) Wait(ctx context.Context) Outcome {
	c := a.claim
	c.mu.Lock()
	a.tryDecide()
	before := a.decision
	if before != quorum.Undecided && (!a.unconfirmedReported || before != quorum.NoQuorum) {
		return a.waitResult(nil)
	}
	s, from := &a.round.State, a.op.Sent
	if a.unconfirmedReported {
		from = time.Now() // this Wait is not the first
	}
	if before != quorum.Undecided || a.op.Directed || c.lost != 0 ||
		a.timeout < a.mux.cfg.NodeTimeout {
		s.eager.Store(true)
	}
	for {
		changed := s.nextChange() // before the votes are counted, and before the round is eager
		if a.tryDecide(); a.decision != before {
			return a.waitResult(nil)
		}
		left, ended := a.remainingWait(from), ctx.Err()
		if left <= 0 || ended != nil {
			return a.waitResult(ended)
		}
		c.mu.Unlock()
		s.await(ctx, changed, left)
		c.mu.Lock()
		if a.tryDecide(); a.decision != before {
			return a.waitResult(nil) // it needs no other channel
		}
	}
}

// await returns when the votes have changed, ctx has ended or the time is over. It sets no timer if
// the round is not eager: the lookout has one, and makes the round eager in time.
func (s *roundState) await(ctx context.Context, changed <-chan struct{}, left time.Duration) {
	var over <-chan time.Time
	if s.eager.Load() {
		timer := time.NewTimer(left)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-changed:
	case <-over:
	case <-ctx.Done():
	}
}

// waitResult returns the result of Wait. ended is why ctx ended it, if it did. claim.mu is held,
// and released.
func (a *Attempt) waitResult(ended error) Outcome {
	c := a.claim
	o := a.outcome(ended)
	a.unconfirmedReported = o.Result == NoQuorum && a.op.Kind == node.Release
	c.mu.Unlock()
	if o.Result != Won && a.op.Kind == node.Acquire {
		a.mux.Release(c, c.Len())
	}
	return o
}

// remainingWait returns how much longer the attempt waits: until its timeout after from, then until
// each node that has not answered hangs, when the lookout wakes the caller. claim.mu is held.
func (a *Attempt) remainingWait(from time.Time) (left time.Duration) {
	if left = a.timeout - time.Since(from); left > 0 {
		return left
	}
	useful := a.maxAge - time.Since(a.op.Sent)
	for s := a.open(); s != 0; s &= s - 1 {
		since := a.mux.lookout.hanging[s.Lowest()].Load()
		if since == nil {
			return useful
		}
		left = max(left, a.timeout-time.Since(*since))
	}
	return min(left, useful)
}
