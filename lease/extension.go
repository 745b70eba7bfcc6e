package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Extension is one try to let a lease end later, or earlier. Whoever makes it sends TTL, fills in
// Sent and Err, and calls Finish. Until then no other extension of the lease begins.
type Extension struct {
	// Owner is what Manager.Hold was given.
	Owner any
	// TTL is how long the lease is to last, from when this is sent; in whole milliseconds.
	TTL time.Duration
	// Least is the shortest TTL that an automatic extension may be sent with: confirmed or not, it
	// must not end the keys before the lease.
	Least time.Duration
	// Before is when it is too late to send it. The lease is valid until then, or longer.
	Before time.Time
	// Patience is how long it may take at least, before it is given up and tried again.
	Patience time.Duration
	// Sent is when it was sent, or earlier, but after the extension began.
	Sent time.Time
	// Err is nil when it was confirmed, ErrLost when the lease was found gone, and else why it was
	// not confirmed.
	Err error

	term      *Term
	renew     time.Duration // what automatic extensions ask for from now on; 0: as before
	suspended time.Duration // for how long the machine had been before it was sent
}

// Begin begins an extension for ttl when it is its turn. Where the lease has a bound, it does not
// reach beyond. A shorter time may take effect without an answer, so it counts from now on. An
// error is ctx's, or how the lease has ended.
func (t *Term) Begin(ctx context.Context, ttl time.Duration) (Extension, error) {
	if err := t.turn(ctx); err != nil {
		return Extension{}, err
	}
	t.mu.Lock()
	now := t.manager.now()
	e := t.ask(now, ttl)
	e.renew = ttl
	until := t.reach(now, e.TTL)
	shortened := until < t.until
	if shortened {
		t.until = until
	}
	e.Before = t.manager.time(t.until)
	t.mu.Unlock()
	if shortened {
		t.manager.reschedule(t)
	}
	return e, nil
}

// turn waits until nobody else extends the term.
func (t *Term) turn(ctx context.Context) error {
	for {
		t.mu.Lock()
		if t.lapse() {
			defer t.mu.Unlock()
			return t.end
		}
		if !t.extending {
			t.extending = true
			t.mu.Unlock()
			return nil
		}
		e := t.need()
		if e.free == nil {
			e.free = make(chan struct{})
		}
		free := e.free
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

// due begins the automatic extension of a term that was queued; false where it is not wanted any
// more.
func (t *Term) due(now instant) (e Extension, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queued = false
	if t.end != nil || now >= t.until || !t.extendable() {
		return e, false
	}
	t.extending = true
	e = t.ask(now, t.ttl)
	left := time.Duration(t.until - now)
	e.Least = TTLFor(left)
	e.Before = t.manager.time(now.after(left / 2))
	e.Patience = min(Validity(t.ttl)/patienceParts, left/2)
	return e, true
}

// ask makes the extension for ttl, or for what the bound leaves of it. mu is held.
func (t *Term) ask(now instant, ttl time.Duration) Extension {
	if t.ttl != 0 {
		ttl = min(ttl, TTLFor(time.Duration(t.bound-now)))
	}
	return Extension{Owner: t.owner, TTL: ttl, term: t, suspended: t.manager.seen()}
}

// reach is the end of validity of what was asked for at sent. mu is held.
func (t *Term) reach(sent instant, ttl time.Duration) instant {
	until := sent.after(Validity(ttl))
	if t.ttl != 0 {
		until = min(until, t.bound)
	}
	return until
}

// Finish takes the outcome and lets the next extension begin. It returns nil when the lease lasts
// as was asked for. ErrLost ends it. Any other error leaves it as it is; if it was over before
// that, Finish returns how it ended: nothing brings it back.
func (e *Extension) Finish() error {
	err := e.settle()
	if errors.Is(err, ErrLost) {
		err = e.term.End(err)
	}
	if e.term.bound != 0 {
		e.term.manager.reschedule(e.term)
	}
	return err
}

// settle is Finish without the end of a lost lease.
func (e *Extension) settle() error {
	t := e.term
	t.mu.Lock()
	defer t.mu.Unlock()
	t.extending = false
	if t.extra != nil && t.extra.free != nil {
		close(t.extra.free)
		t.extra.free = nil
	}
	switch {
	case t.lapse():
		return t.end
	case e.Err == nil:
		t.until = t.reach(t.manager.at(e.Sent, e.suspended), e.TTL)
		if t.ttl != 0 && e.renew != 0 {
			t.ttl = e.renew
		}
		if t.extra != nil {
			t.extra.failure = nil
		}
		t.manager.extended.Add(1)
		return nil
	case t.ttl != 0:
		t.need().failure = e.Err
	}
	return e.Err
}
