package multiplex

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
)

// Wait returns the outcome. It waits for at most NodeTimeout for a node that has owed an answer for
// that long. It waits longer only for nodes that keep answering what is queued before this attempt,
// as long as the outcome is of any use.
//
// An acquire that failed is released in the background, on every node that may have heard of it. An
// acquire whose answer came before ctx ended is granted. A release continues after Wait failed, and
// Wait may be called again for it. began is when the caller began to wait, if it waits for several
// attempts one after another, and else zero.
func (a *Attempt) Wait(ctx context.Context, began time.Time) Outcome {
	c := a.claim
	c.mu.Lock()
	a.tryDecide()
	before := a.decision
	if before != quorum.Undecided && (!a.unconfirmedReported || before != quorum.NoQuorum) {
		return a.waitResult(nil)
	}
	if before == quorum.Undecided && a.inLog() && !a.recorded &&
		a.timeout >= a.mux.cfg.NodeTimeout {
		r := a.place.Round
		c.mu.Unlock()
		r.State.await(ctx)
		c.mu.Lock()
		if a.tryDecide(); a.decision != quorum.Undecided {
			return a.waitResult(nil)
		}
	}
	var timer *time.Timer
	for {
		changed, left, ended := a.look(ctx, began, before)
		if left <= 0 {
			if timer != nil {
				timer.Stop()
			}
			return a.waitResult(ended)
		}
		c.mu.Unlock()
		if timer == nil {
			timer = time.NewTimer(left)
		} else {
			timer.Reset(left)
		}
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		c.mu.Lock()
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

// look returns for how long to wait, and a channel that is closed when to look again before that.
// The time is not positive if there is nothing to wait for: the decision is not the one before, ctx
// has ended, or the time to wait is over. ended is ctx's error if that is the reason. claim.mu is
// held.
func (a *Attempt) look(ctx context.Context, began time.Time, before quorum.Decision) (
	changed <-chan struct{}, left time.Duration, ended error,
) {
	if a.inLog() {
		changed = a.place.Round.State.nextChange() // before the votes are counted
	}
	if a.tryDecide(); a.decision != before {
		return nil, 0, nil
	}
	if ended = ctx.Err(); ended != nil {
		return nil, 0, ended
	}
	return changed, a.remainingWait(began), nil
}

// remainingWait returns how much longer the attempt waits: until its timeout, and after that while
// nodes that have not answered keep answering others. claim.mu is held.
func (a *Attempt) remainingWait(began time.Time) (left time.Duration) {
	if began.Before(a.op.Sent) {
		began = a.op.Sent
	}
	if left = a.timeout - time.Since(began); left > 0 {
		return left
	}
	for s := a.unanswered(); s != 0; s &= s - 1 {
		i := s.Lowest()
		owes, _ := a.mux.owes(i)
		left = max(left, a.timeout-owes)
	}
	return min(left, a.maxAge-time.Since(a.op.Sent))
}
