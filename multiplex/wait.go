package multiplex

import (
	"context"
	"math"
	"time"
)

// waiter is one goroutine in Wait, whose memory is used again, or a Waker in Poll.
type waiter struct {
	wake   chan struct{} // of capacity 1; filled by the decision and by the timer
	onWake func()        // called in place of wake, if it is not nil
	timer  *time.Timer
	next   *waiter // guarded by claim.mu
}

// notify wakes the waiter: there may be something to do.
func (w *waiter) notify() {
	if w.onWake != nil {
		w.onWake()
		return
	}
	notify(w.wake)
}

// Waker notifies an owner that must not block: see Attempt.Poll. It serves one attempt at a time.
type Waker struct{ waiter waiter }

// NewWaker returns a Waker that calls wake: from any goroutine, with locks held, and sometimes
// without need. wake must not block, and must not call a method of the Mux or of its attempts.
func NewWaker(wake func()) *Waker {
	w := &Waker{waiter{onWake: wake}}
	w.waiter.timer = time.AfterFunc(math.MaxInt64, wake)
	w.waiter.timer.Stop()
	return w
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
	var ended error
	if a.decision == undecided || a.unconfirmedReported && a.decision != won {
		ended = a.awaitDecision(ctx, began)
	}
	return a.waitResult(ended)
}

// waitResult returns the result of Wait. ended is why ctx ended it, if it did. claim.mu is held,
// and released.
func (a *Attempt) waitResult(ended error) Outcome {
	c := a.claim
	o := a.outcome(ended)
	a.unconfirmedReported = o.Result != Won && a.kind == release
	c.mu.Unlock()
	if o.Result != Won && a.kind == acquire {
		a.mux.Release(c, c.Len())
	}
	return o
}

// Poll is Wait for an owner that must not block. ready reports whether Wait would return now, and
// o is what it would return. If it is not ready, w is notified when it may be. The owner calls
// Poll again then, or when ctx has ended. Poll is not for a release.
func (a *Attempt) Poll(ctx context.Context, w *Waker) (o Outcome, ready bool) {
	c := a.claim
	c.mu.Lock()
	a.removeWaiter(&w.waiter)
	var ended error
	for a.decision == undecided {
		if ended = ctx.Err(); ended != nil {
			break
		}
		if left := a.remainingWait(time.Time{}); left > 0 {
			w.waiter.next, a.waiters = a.waiters, &w.waiter
			w.waiter.timer.Reset(left)
			c.mu.Unlock()
			return Outcome{}, false
		}
		start := a.askDeferred() // the arbiter has not answered
		if start == 0 {
			break
		}
		c.mu.Unlock()
		a.mux.sendAll(a, start)
		c.mu.Lock()
	}
	w.waiter.timer.Stop()
	return a.waitResult(ended), true
}

// awaitDecision returns at the decision, with ctx's error, or when the time to wait is over.
// claim.mu is held, and released meanwhile.
func (a *Attempt) awaitDecision(ctx context.Context, began time.Time) error {
	c := a.claim
	before, left := a.decision, a.phaseTimeout()
	if !began.IsZero() {
		left -= time.Since(began)
	}
	w := a.mux.newWaiter(left)
	w.next, a.waiters = a.waiters, w
	var ended error
	var start nodeSet
	for {
		c.mu.Unlock()
		a.mux.sendAll(a, start)
		ended = w.wait(ctx)
		c.mu.Lock()
		if a.decision != before {
			ended = nil // the answer came first
			break
		}
		left, start = a.remainingWait(began), 0
		if ended == nil && left <= 0 { // the arbiter has not answered
			start = a.askDeferred()
			left = a.remainingWait(began)
		}
		if ended != nil || left <= 0 && start == 0 {
			break
		}
		w.timer.Reset(left)
	}
	w.timer.Stop()
	a.removeWaiter(w)
	a.mux.waiterPool.Put(w)
	return ended
}

// remainingWait returns how much longer the attempt waits: until its timeout, and after that while
// nodes that have not answered keep answering others. claim.mu is held.
func (a *Attempt) remainingWait(began time.Time) (left time.Duration) {
	if from := a.sent.Add(time.Duration(a.deferredAskedAt) * time.Millisecond); began.Before(from) {
		began = from
	}
	timeout := a.phaseTimeout()
	if left = timeout - time.Since(began); left > 0 {
		if a.deferredAskedAt > 0 { // after the arbiter, less than the timeout may be left
			left = min(left, a.maxAge-time.Since(a.sent))
		}
		return left // a timer of an earlier use of the waiter fired, or that of an earlier phase
	}
	for s := a.unanswered(); s != 0; s &= s - 1 {
		i := s.first()
		left = max(left, timeout-a.mux.nodes[i].responsiveness.unresponsiveFor())
	}
	return min(left, a.maxAge-time.Since(a.sent))
}

// newWaiter returns a waiter that is woken after d.
func (m *Mux) newWaiter(d time.Duration) *waiter {
	w, _ := m.waiterPool.Get().(*waiter)
	if w == nil {
		w = &waiter{wake: make(chan struct{}, 1)}
		w.timer = time.AfterFunc(d, func() { notify(w.wake) })
		return w
	}
	w.timer.Reset(d)
	return w
}

// wait returns when it is woken, or with ctx's error. One channel for the decision and the timer
// makes the usual wait a plain receive.
func (w *waiter) wait(ctx context.Context) error {
	done := ctx.Done()
	if done == nil {
		<-w.wake
		return nil
	}
	select {
	case <-w.wake:
	case <-done:
		return ctx.Err()
	}
	return nil
}

// removeWaiter takes w off the list, or takes the wake-up that came too late for it. claim.mu is
// held.
func (a *Attempt) removeWaiter(w *waiter) {
	for p := &a.waiters; *p != nil; p = &(*p).next {
		if *p == w {
			*p = w.next
			break
		}
	}
	w.next = nil
	select {
	case <-w.wake:
	default:
	}
}
