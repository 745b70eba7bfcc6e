package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Extension is one try to let a lease end later, or earlier. The caller sends TTL, fills in Err,
// and calls Finish. Until then no other extension of the lease begins.
type Extension struct {
	// Owner is what Manager.Hold was given.
	Owner any
	// TTL is how long the lease will last, from when the extension began; in whole milliseconds.
	TTL time.Duration
	// SendBefore is when it is too late to send it. The lease is valid until then, or longer.
	SendBefore time.Time
	// MinTimeout is how long it may take at least, before it is given up and retried.
	MinTimeout time.Duration
	// Err is nil if it was confirmed, ErrLost if the nodes do not have the lease any more, and
	// otherwise why it was not confirmed.
	Err error

	term    *Term
	nextTTL time.Duration // of automatic extensions, if it is confirmed
	began   Instant       // before it was sent
}

// BeginExtension begins an extension for ttl when no other one is under way. If the lease has a
// MaxHold, it does not reach beyond. A shorter time counts from now on, whatever the nodes answer:
// it needs no confirmation. An error is ctx's, or how the lease has ended.
func (t *Term) BeginExtension(ctx context.Context, ttl time.Duration) (Extension, error) {
	if err := t.lockExtension(ctx); err != nil {
		return Extension{}, err
	}
	t.mu.Lock()
	now := t.manager.clock.Now()
	e := t.newExtension(now, ttl)
	until := t.validUntil(now, e.TTL)
	shortened := until < t.until
	if shortened {
		t.until = until
	}
	e.SendBefore = t.manager.clock.Time(t.until)
	t.mu.Unlock()
	if shortened {
		t.manager.reschedule(t)
	}
	return e, nil
}

// lockExtension waits until no other extension of the term is under way, and reserves the next one
// for the caller.
func (t *Term) lockExtension(ctx context.Context) error {
	for {
		t.mu.Lock()
		if t.expireIfDue(t.manager.clock.Now()) {
			defer t.mu.Unlock()
			return t.end
		}
		if !t.extending {
			t.extending = true
			t.mu.Unlock()
			return nil
		}
		cold := t.ensureCold()
		if cold.extensionFree == nil {
			cold.extensionFree = make(chan struct{})
		}
		free := cold.extensionFree
		t.mu.Unlock()
		over := t.Context()
		select {
		case <-free:
		case <-ctx.Done():
			return fmt.Errorf(errorPrefix+"%w", ctx.Err())
		case <-over.Done():
			return context.Cause(over)
		}
	}
}

// startAuto begins the automatic extension of a term that was queued. ok is false if the term does
// not want it any more.
func (t *Term) startAuto(now Instant) (e Extension, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queued = false
	if t.end != nil || now >= t.until || !t.wantsExtension() {
		return e, false
	}
	t.extending = true
	e = t.newExtension(now, t.ttl)
	left := time.Duration(t.until - now)
	e.SendBefore = t.manager.clock.Time(now.after(left / 2))
	e.MinTimeout = min(Validity(t.ttl)/timeoutParts, left/2)
	return e, true
}

// newExtension makes the extension for ttl, or for as much as maxHoldEnd leaves of it. mu is held.
func (t *Term) newExtension(now Instant, ttl time.Duration) Extension {
	e := Extension{Owner: t.owner, TTL: ttl, term: t, nextTTL: ttl, began: now}
	if t.ttl != 0 {
		e.TTL = min(ttl, TTLFor(time.Duration(t.maxHoldEnd-now)))
	}
	return e
}

// validUntil returns the end of validity of a ttl that was asked for at sent. mu is held.
func (t *Term) validUntil(sent Instant, ttl time.Duration) Instant {
	until := sent.after(Validity(ttl))
	if t.ttl != 0 {
		until = min(until, t.maxHoldEnd)
	}
	return until
}

// Finish takes the outcome and lets the next extension begin. It returns nil if the lease lasts as
// was asked for. ErrLost ends the lease. Any other error leaves it as it is. If the lease was over
// before, Finish returns how it ended: no extension brings it back.
func (e *Extension) Finish() error {
	err := e.apply()
	if errors.Is(err, ErrLost) {
		err = e.term.End(err)
	}
	if e.term.maxHoldEnd != 0 {
		e.term.manager.reschedule(e.term)
	}
	return err
}

// apply is Finish without the end of a lost lease.
func (e *Extension) apply() error {
	t := e.term
	t.mu.Lock()
	defer t.mu.Unlock()
	t.extending = false
	if t.cold != nil && t.cold.extensionFree != nil {
		close(t.cold.extensionFree)
		t.cold.extensionFree = nil
	}
	switch {
	case t.expireIfDue(t.manager.clock.Now()):
		return t.end
	case e.Err == nil:
		t.until = t.validUntil(e.began, e.TTL)
		if t.ttl != 0 {
			t.ttl = e.nextTTL
		}
		if t.cold != nil {
			t.cold.failure = nil
		}
		return nil
	case t.ttl != 0:
		t.ensureCold().failure = e.Err
	}
	return e.Err
}
