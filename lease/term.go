// Package lease knows how long leases are valid and how they end. It knows neither Redis nor votes.
package lease

import (
	"context"
	"errors"
	"sync"
	"time"
)

// The ends of a lease. Each lease ends by exactly one of them, and it is the cause of its context.
var (
	// ErrReleased: the holder released it, and nothing is held any more.
	ErrReleased = errors.New("lease was released")
	// ErrExpired: its time ran out. Another may hold the keys now.
	ErrExpired = errors.New("lease expired")
	// ErrLost: it was found gone before its time ran out. Another may hold the keys now.
	ErrLost = errors.New("lease was lost")
	// ErrClosed: the client was closed, which released it.
	ErrClosed = errors.New("client is closed")
)

// Term is the time for which one lease is held. It begins with Manager.Hold, and is over when its time runs out on
// the local clock or when End comes first; from then on every method says so, whether or not any timer has run. It must
// not be copied. All methods are safe for concurrent use.
type Term struct {
	place place // in the manager's wheel

	mu     sync.Mutex // guards all below; a leaf
	until  time.Time  // with the monotonic clock; never later than the last confirmed end
	end    error      // nil while held
	ctx    context.Context
	cancel context.CancelCauseFunc // nil until somebody asks for the context
	timer  *time.Timer
}

// lapse ends the term if its time has run out. mu is held.
func (t *Term) lapse() {
	if t.end == nil && !time.Now().Before(t.until) {
		t.finish(ErrExpired)
	}
}

// finish ends the term. mu is held.
func (t *Term) finish(cause error) {
	t.end = cause
	if t.cancel != nil {
		t.timer.Stop()
		t.cancel(cause)
	}
}

// End ends the term with cause, unless it is over. It returns the cause that the term has ended by.
func (t *Term) End(cause error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lapse()
	if t.end == nil {
		t.finish(cause)
	}
	return t.end
}

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
	if t.lapse(); t.end != nil {
		return time.Time{}
	}
	return t.until
}

// Extend moves the end to a confirmed time, later or earlier. It fails with the cause if the term was over before that
// was confirmed: nothing brings it back.
func (t *Term) Extend(until time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lapse(); t.end != nil {
		return t.end
	}
	t.until = until
	t.rearm()
	return nil
}

// shorten moves the end to until if that is earlier, and reports whether it was.
func (t *Term) shorten(until time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.end != nil || !until.Before(t.until) {
		return false
	}
	t.until = until
	t.rearm()
	return true
}

// rearm sets the timer of the context to the end. mu is held.
func (t *Term) rearm() {
	if t.cancel != nil {
		t.timer.Reset(time.Until(t.until))
	}
}

// Context returns a context that ends with the term, at the latest when the time runs out on the local clock; its cause
// is the cause of the end.
func (t *Term) Context() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel == nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		t.ctx, t.cancel = clockContext{ctx, t}, cancel
		t.timer = time.AfterFunc(time.Until(t.until), t.ring)
		if t.end != nil {
			t.finish(t.end)
		}
	}
	return t.ctx
}

// ring is what the timer of the context does. It finds the term extended if it was stopped too late.
func (t *Term) ring() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lapse(); t.end == nil {
		t.rearm()
	}
}

// clockContext asks the clock before it says that it has not ended: after a pause of the process the timers may not have run
// yet.
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
