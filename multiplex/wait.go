package multiplex

import (
	"context"
	"math"
	"time"

	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
)

// sleeper is one goroutine in Wait. Its memory is used again.
type sleeper struct {
	woken chan struct{} // of capacity 1; filled by the decision and by the timer
	timer *time.Timer
	next  *sleeper // guarded by claim.mu
}

func (m *Mux) newSleeper() *sleeper {
	s, _ := m.sleepers.Get().(*sleeper)
	if s == nil {
		s = &sleeper{woken: make(chan struct{}, 1)}
		s.timer = time.AfterFunc(math.MaxInt64, s.wake)
		s.timer.Stop()
	}
	return s
}

// wake ends the sleep, or the next one.
func (s *sleeper) wake() { notify(s.woken) }

// notify sends on a channel of capacity 1, if that is empty.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

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
	s := a.mux.newSleeper()
	for {
		ready, ended := a.look(ctx, began, before, s)
		if ready {
			select {
			case <-s.woken: // too late
			default:
			}
			a.mux.sleepers.Put(s)
			return a.waitResult(ended)
		}
		c.mu.Unlock()
		s.sleep(ctx)
		c.mu.Lock()
	}
}

// sleep returns when it is woken, or ctx ends. One channel for the decision and the timer makes the
// usual wait a plain receive.
func (s *sleeper) sleep(ctx context.Context) {
	done := ctx.Done()
	if done == nil {
		<-s.woken
		return
	}
	select {
	case <-s.woken:
	case <-done:
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

// look reports whether nothing is to be waited for any more: the decision is not the one before,
// ctx has ended, or the time to wait is over. ended is ctx's error if that is the reason. Otherwise
// s is woken when to look again. claim.mu is held.
func (a *Attempt) look(ctx context.Context, began time.Time, before quorum.Decision,
	s *sleeper,
) (ready bool, ended error) {
	a.removeSleeper(s)
	a.tryDecide()
	for a.decision == before {
		if ended = ctx.Err(); ended != nil {
			break
		}
		if left := a.remainingWait(began); left > 0 {
			a.addSleeper(s, left)
			return false, nil
		}
		if !a.askDeferred() { // the arbiter has not answered
			break
		}
	}
	s.timer.Stop()
	return true, ended
}

// remainingWait returns how much longer the attempt waits: until its timeout, and after that while
// nodes that have not answered keep answering others, or while answers may be unread because the
// process was late. claim.mu is held.
func (a *Attempt) remainingWait(began time.Time) (left time.Duration) {
	from := a.op.Sent.Add(time.Duration(a.deferredAskedAt) * time.Millisecond)
	alone := began.IsZero()
	if began.Before(from) {
		began = from
	}
	timeout := a.phaseTimeout()
	if left = timeout - time.Since(began); left > 0 {
		if a.deferredAskedAt > 0 { // after the arbiter, less than the timeout may be left
			left = min(left, a.maxAge-time.Since(a.op.Sent))
		}
		return left // a timer of an earlier use of the sleeper fired, or that of an earlier phase
	}
	for s := a.unanswered(); s != 0; s &= s - 1 {
		i := s.Lowest()
		left = max(left, timeout-a.mux.nodes[i].UnresponsiveFor())
	}
	if left <= 0 && alone {
		left = a.mux.lateness.grace(time.Now(), -left)
	}
	return min(left, a.maxAge-time.Since(a.op.Sent))
}

// addSleeper has s woken by the decision, and when left is over. claim.mu is held.
func (a *Attempt) addSleeper(s *sleeper, left time.Duration) {
	s.next, a.sleepers = a.sleepers, s
	s.timer.Reset(left)
	if a.inLog() && !a.recorded {
		if !a.slept {
			a.slept = true
			a.place.Round.State.addSleeper(a)
		}
		a.tryDecide() // a node may have been done just before
	}
}

// removeSleeper takes s off the list. claim.mu is held.
func (a *Attempt) removeSleeper(s *sleeper) {
	for p := &a.sleepers; *p != nil; p = &(*p).next {
		if *p == s {
			*p = s.next
			break
		}
	}
	s.next = nil
}
