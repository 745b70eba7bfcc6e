package multiplex

import (
	"context"
	"math"
	"time"

	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
)

// Waker notifies an owner that waits for an attempt. It serves one attempt at a time.
type Waker struct {
	wake  func()
	timer *time.Timer // calls wake
	next  *Waker      // guarded by claim.mu
}

// NewWaker returns a Waker that calls wake: from any goroutine, with locks held, and sometimes
// without need. wake must not block, and must not call a method of the Mux or of its attempts.
func NewWaker(wake func()) *Waker {
	w := &Waker{wake: wake, timer: time.AfterFunc(math.MaxInt64, wake)}
	w.timer.Stop()
	return w
}

// sleeper is one goroutine in Wait. Its memory is used again.
type sleeper struct {
	waker *Waker
	woken chan struct{} // of capacity 1; filled by the decision and by the timer
}

func (m *Mux) newSleeper() *sleeper {
	s, _ := m.sleepers.Get().(*sleeper)
	if s == nil {
		s = &sleeper{woken: make(chan struct{}, 1)}
		s.waker = NewWaker(func() { notify(s.woken) })
	}
	return s
}

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
	if before != quorum.Undecided && (!a.unconfirmedReported || before == quorum.Won) {
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
		ready, ended := a.look(ctx, began, before, s.waker)
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
	a.unconfirmedReported = o.Result != Won && a.op.Kind == node.Release
	c.mu.Unlock()
	if o.Result != Won && a.op.Kind == node.Acquire {
		a.mux.Release(c, c.Len())
	}
	return o
}

// Poll is Wait for an owner that must not block. ready reports whether Wait would return now, and
// o is what it would return. If it is not ready, w is notified when it may be. The owner calls
// Poll again then, or when ctx has ended. Poll is not for a release.
func (a *Attempt) Poll(ctx context.Context, w *Waker) (o Outcome, ready bool) {
	a.claim.mu.Lock()
	ready, ended := a.look(ctx, time.Time{}, quorum.Undecided, w)
	if !ready {
		a.claim.mu.Unlock()
		return Outcome{}, false
	}
	return a.waitResult(ended), true
}

// look reports whether nothing is to be waited for any more: the decision is not the one before,
// ctx has ended, or the time to wait is over. ended is ctx's error if that is the reason. Otherwise
// w is notified when to look again. claim.mu is held.
func (a *Attempt) look(ctx context.Context, began time.Time, before quorum.Decision,
	w *Waker,
) (ready bool, ended error) {
	a.removeWaker(w)
	a.tryDecide()
	for a.decision == before {
		if ended = ctx.Err(); ended != nil {
			break
		}
		if left := a.remainingWait(began); left > 0 {
			a.addWaker(w, left)
			return false, nil
		}
		if !a.askDeferred() { // the arbiter has not answered
			break
		}
	}
	w.timer.Stop()
	return true, ended
}

// remainingWait returns how much longer the attempt waits: until its timeout, and after that while
// nodes that have not answered keep answering others. claim.mu is held.
func (a *Attempt) remainingWait(began time.Time) (left time.Duration) {
	from := a.op.Sent.Add(time.Duration(a.deferredAskedAt) * time.Millisecond)
	if began.Before(from) {
		began = from
	}
	timeout := a.phaseTimeout()
	if left = timeout - time.Since(began); left > 0 {
		if a.deferredAskedAt > 0 { // after the arbiter, less than the timeout may be left
			left = min(left, a.maxAge-time.Since(a.op.Sent))
		}
		return left // a timer of an earlier use of the waiter fired, or that of an earlier phase
	}
	for s := a.unanswered(); s != 0; s &= s - 1 {
		i := s.Lowest()
		left = max(left, timeout-a.mux.nodes[i].UnresponsiveFor())
	}
	return min(left, a.maxAge-time.Since(a.op.Sent))
}

// addWaker has w notified of the decision, and when left is over. claim.mu is held.
func (a *Attempt) addWaker(w *Waker, left time.Duration) {
	w.next, a.wakers = a.wakers, w
	w.timer.Reset(left)
	if a.inLog() && !a.recorded {
		if !a.slept {
			a.slept = true
			a.place.Round.State.addSleeper(a)
		}
		a.tryDecide() // a node may have been done just before
	}
}

// removeWaker takes w off the list. claim.mu is held.
func (a *Attempt) removeWaker(w *Waker) {
	for p := &a.wakers; *p != nil; p = &(*p).next {
		if *p == w {
			*p = w.next
			break
		}
	}
	w.next = nil
}
