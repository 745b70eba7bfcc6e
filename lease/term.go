// Package lease knows how long leases are valid, when they are due for an extension, and how they
// end. It knows neither Redis nor votes.
package lease

import (
	"context"
	"sync"
	"time"
)

// instant is a time on the manager's clock, which also counts while the machine is suspended: in
// nanoseconds since the manager's epoch.
type instant int64

// after is the instant d later.
func (i instant) after(d time.Duration) instant { return i + instant(d) }

// Term is the time for which one lease is held. It begins with Manager.Hold, and is over when its
// time runs out on the local clock or when End comes first; from then on every method says so,
// whether or not any timer has run. It must not be copied. All methods are safe for concurrent use.
type Term struct {
	manager *Manager
	owner   any

	began instant // set once, by Manager.Hold
	place int32   // among the manager's events, from 1; 0: not there. Guarded by manager.mu

	// Guarded by mu, as all below:
	queued    bool // among the manager's ready terms
	extending bool // somebody has the turn to extend it
	passed    bool // PassOn ended it

	mu    sync.Mutex    // may be taken under manager.mu, and nothing under it
	until instant       // the end of validity; never later than the last confirmed one
	ttl   time.Duration // of automatic extensions; 0: there are none
	bound instant       // the end of automatic extension; 0: there is none. Set once
	end   error         // nil while held
	over  instant       // when it ended
	extra *extra        // what few terms need; nil until they do
}

type extra struct {
	ctx    context.Context
	cancel context.CancelCauseFunc // nil until somebody asks for the context
	// Closed when the turn is given back; nil while nobody waits for it.
	free    chan struct{}
	failure error // of the last extension, if it failed
}

// need returns t.extra. mu is held.
func (t *Term) need() *extra {
	if t.extra == nil {
		t.extra = new(extra)
	}
	return t.extra
}

// lapse ends the term if its time has run out, and reports whether it is over. mu is held.
func (t *Term) lapse() (over bool) {
	return t.end != nil || t.lapsed(t.manager.now())
}

// lapsed is lapse for a term that has not ended before now. mu is held.
func (t *Term) lapsed(now instant) (over bool) {
	if over = now >= t.until; over {
		t.finish(t.runOut(), t.until)
	}
	return over
}

// finish ends the term. mu is held.
func (t *Term) finish(cause error, at instant) {
	t.end, t.over = cause, at
	if t.extra != nil && t.extra.cancel != nil {
		t.extra.cancel(cause)
	}
}

// End ends the term with cause, unless it is over. It returns the cause that the term has ended by.
func (t *Term) End(cause error) error {
	end := t.stop(cause)
	if t.manager.remove(t) {
		t.manager.tell(t, end)
	}
	return end
}

// stop is End without the manager.
func (t *Term) stop(cause error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.manager.now(); t.end == nil && !t.lapsed(now) {
		t.finish(cause, now)
	}
	return t.end
}

// PassOn ends the term by ErrReleased if take takes over what it was about. take gets the time when
// the term would have ended, and for how long the machine had been suspended when that was
// computed. PassOn does not ask take when the term is over, or is being extended. It reports
// whether this or an earlier call has passed it on: then the lease is another's, and nothing may be
// done to it any more. take must not block, nor use the term.
func (t *Term) PassOn(take func(until time.Time, suspended time.Duration) bool) bool {
	t.mu.Lock()
	now := t.manager.now()
	suspended := t.manager.seen() // before time, which may know of more
	if t.end == nil && !t.lapsed(now) && !t.extending &&
		take(t.manager.time(t.until), suspended) {
		t.passed = true
		t.finish(ErrReleased, now)
	}
	passed := t.passed
	t.mu.Unlock()
	if passed && t.manager.remove(t) {
		t.manager.tell(t, ErrReleased)
	}
	return passed
}

// Passed reports whether PassOn ended the term.
func (t *Term) Passed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.passed
}

// refuse ends a term that does not begin.
func (t *Term) refuse(cause error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish(cause, t.began)
	return cause
}

// Began returns when Manager.Hold began the term.
func (t *Term) Began() time.Time { return t.manager.time(t.began) }

// Err returns nil while the term lasts, and then the cause that it ended by.
func (t *Term) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lapse()
	return t.end
}

// Until returns the end of validity, or the zero time when the term is over.
func (t *Term) Until() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lapse() {
		return time.Time{}
	}
	return t.manager.time(t.until)
}

// Context returns a context that ends with the term, at the latest when the time runs out on the
// local clock; its cause is the cause of the end.
func (t *Term) Context() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.need()
	if e.cancel == nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		e.ctx, e.cancel = clockContext{ctx, t}, cancel
		if t.lapse() {
			cancel(t.end)
		}
	}
	return e.ctx
}

// clockContext asks the clock before it says that it has not ended: after a pause of the process
// the timers may not have run yet.
type clockContext struct {
	context.Context
	term *Term
}

func (c clockContext) Err() error {
	if c.term.Err() == nil {
		return nil
	}
	return c.Context.Err()
}
