// Package lease knows how long leases are valid, when they are due for an extension, and how they
// end. It knows neither Redis nor votes.
package lease

import (
	"context"
	"sync"
	"time"
)

// Term is the time for which one lease is held. It begins with Manager.Hold, and is over when its
// time runs out on the local clock, or at End if that comes first. From then on every method says
// so, whether or not any timer has run. It must not be copied. All methods are safe for concurrent
// use.
type Term struct {
	manager *Manager
	owner   any

	began     Instant // set once, by Manager.Hold
	heapIndex int32   // in the manager's events, from 1; 0: not there. Guarded by manager.mu

	// Guarded by mu, as all below:
	queued    bool // among the manager's ready terms
	extending bool // an extension is under way
	handedOff bool // HandOff ended it

	mu sync.Mutex // may be taken under manager.mu, and nothing under it
	// The end of validity; never later than the last confirmed one. Of a term that is over: when it
	// ended.
	until      Instant
	ttl        time.Duration // of automatic extensions; 0: there are none
	maxHoldEnd Instant       // the latest end by automatic extensions; 0: there are none. Set once
	end        error         // nil while held
	cold       *coldState    // nil until it is needed
}

// coldState is the state that few terms need. Term.mu guards it.
type coldState struct {
	ctx    context.Context
	cancel context.CancelCauseFunc // nil until a caller asks for the context
	// Closed when the extension under way has finished; nil while no caller waits for that.
	extensionFree chan struct{}
	failure       error // of the last extension, if it failed
}

// ensureCold returns t.cold, and makes it first if it is nil. mu is held.
func (t *Term) ensureCold() *coldState {
	if t.cold == nil {
		t.cold = new(coldState)
	}
	return t.cold
}

// expireIfDue ends the term if its time has run out at now. It reports whether the term is over. mu
// is held.
func (t *Term) expireIfDue(now Instant) (over bool) {
	if t.end == nil && now >= t.until {
		at := time.Now().Add(time.Duration(t.until - now))
		t.setEnd(&EndError{t.expiryError(), t.owner, at}, t.until)
	}
	return t.end != nil
}

// setEnd ends the term. mu is held.
func (t *Term) setEnd(cause error, at Instant) {
	t.end, t.until = cause, at
	if t.cold != nil && t.cold.cancel != nil {
		t.cold.cancel(cause)
	}
}

// End ends the term with cause, unless it is over. It returns the cause that the term ended with.
func (t *Term) End(cause error) error {
	end := t.endWith(cause)
	if t.manager.remove(t) {
		t.manager.reportEnd(t, end)
	}
	return end
}

// endWith is End without the manager.
func (t *Term) endWith(cause error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.manager.clock.Now(); !t.expireIfDue(now) {
		t.setEnd(cause, now)
	}
	return t.end
}

// HandOff ends the term with ErrReleased, unless it is over or is being extended. It returns when
// the term would have ended. If ok is true, the lease belongs to the next holder, and the caller
// must not use it any more.
func (t *Term) HandOff() (until Instant, ok bool) {
	t.mu.Lock()
	now := t.manager.clock.Now()
	if ok = !t.expireIfDue(now) && !t.extending; ok {
		until = t.until
		t.handedOff = true
		t.setEnd(ErrReleased, now)
	}
	t.mu.Unlock()
	if ok && t.manager.remove(t) {
		t.manager.reportEnd(t, ErrReleased)
	}
	return until, ok
}

// HandedOff reports whether HandOff ended the term.
func (t *Term) HandedOff() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.handedOff
}

// Began returns when Manager.Hold began the term.
func (t *Term) Began() time.Time { return t.manager.clock.Time(t.began) }

// Err returns nil while the term lasts, and then the cause that it ended with.
func (t *Term) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expireIfDue(t.manager.clock.Now())
	return t.end
}

// Until returns the end of validity, or 0 when the term is over.
func (t *Term) Until() Instant {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expireIfDue(t.manager.clock.Now()) {
		return 0
	}
	return t.until
}

// Context returns a context that ends with the term, at the latest when the time runs out on the
// local clock. Its cause is the cause of the end.
func (t *Term) Context() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.ensureCold()
	if e.cancel == nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		e.ctx, e.cancel = &clockContext{ctx, t, cancel}, cancel
		if t.expireIfDue(t.manager.clock.Now()) {
			cancel(t.end)
		}
	}
	return e.ctx
}

// Bind returns a context with the values and the deadline of ctx, which is cancelled when ctx or
// the term ends. Its cause is that of the one that ended first. unbind ends it, and frees what the
// term's context has of it: it must be called.
func (t *Term) Bind(ctx context.Context) (bound context.Context, unbind func()) {
	inner, cancel := context.WithCancelCause(ctx)
	bound = &clockContext{inner, t, cancel}
	over := t.Context()
	stop := context.AfterFunc(over, func() { cancel(context.Cause(over)) })
	_ = bound.Err() // if the term is over, so is the context
	return bound, func() {
		stop()
		cancel(nil)
	}
}

// clockContext reads the clock before it says that it has not ended: after a pause of the process
// the timers may not have run yet.
type clockContext struct {
	context.Context
	term   *Term
	cancel context.CancelCauseFunc
}

func (c *clockContext) Err() error {
	if end := c.term.Err(); end != nil {
		c.cancel(end)
	}
	return c.Context.Err()
}
