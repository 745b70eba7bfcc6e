package lockpipe

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/outcomes"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// TryAcquire takes key, if nobody holds it, in one attempt of one round trip. It never waits for a
// holder. The error is ErrHeld, ErrNoQuorum, ErrOverloaded, ErrClosed or ErrInvalid. If ctx ended
// first, errors.Is finds its error too. After any error nothing is held.
func (c *Client) TryAcquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	keys := [1]string{key}
	return c.tryAcquire(ctx, keys[:], opts)
}

// TryAcquireAll is TryAcquire for many keys: all of them under one lease, or none. A key given
// twice counts once.
func (c *Client) TryAcquireAll(ctx context.Context, keys []string, opts ...Option) (*Lease, error) {
	return c.tryAcquire(ctx, keys, opts)
}

// Acquire takes key. It waits while another holds the key or no quorum can be reached, until ctx
// ends. Then errors.Is finds ctx's error, and the reason of the last attempt: ErrHeld or
// ErrNoQuorum. ErrOverloaded, ErrClosed and ErrInvalid come at once. After any error nothing is
// held. While too few nodes are connected for a quorum, a waiting call makes one attempt and then
// waits for the nodes. When they are back, such calls try in the order of arrival.
func (c *Client) Acquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	keys := [1]string{key}
	return c.acquire(ctx, keys[:], opts)
}

// AcquireAll is Acquire for many keys: all of them under one lease, or none. While it waits it
// holds none of them, so calls whose keys overlap do not block each other forever. A key given
// twice counts once.
func (c *Client) AcquireAll(ctx context.Context, keys []string, opts ...Option) (*Lease, error) {
	return c.acquire(ctx, keys, opts)
}

func (c *Client) tryAcquire(ctx context.Context, keys []string, opts []Option) (l *Lease,
	err error,
) {
	defer func() {
		if err != nil {
			c.outcomes.failed(outcomes.Try, err, 1)
		}
	}()
	keys, o, err := c.validateCall(ctx, outcomes.Try, keys, opts)
	if err != nil {
		return nil, err
	}
	if err := c.beginCall(); err != nil {
		return nil, err
	}
	defer c.endCall()
	return c.attempt(ctx, keys, o)
}

// attempt makes one try over all nodes, with a token of its own. With fencing it makes as many as
// the clock needs to catch up.
func (c *Client) attempt(ctx context.Context, keys []string, o callOptions) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, errorf("%w", err)
	}
	var t fencedTry
	l, _, err := t.advance(ctx, c, keys, &o, nil)
	return l, err
}

// fencedTry is what attempt makes. The zero value is ready.
type fencedTry struct {
	pending pendingAttempt
	retry   fenceRetry
}

// advance makes the try, and reports whether it is decided. With a waker it does not block, and
// goes on with the try when it is called again.
func (t *fencedTry) advance(ctx context.Context, c *Client, keys []string, o *callOptions,
	w *multiplex.Waker,
) (held *Lease, decided bool, err error) {
	for {
		if t.pending.attempt == nil {
			o.suspended = c.suspended()
			l := c.newLease(keys, t.retry.floor, o.fencesWanted(c.hasWaiters(keys, *o)))
			t.pending = pendingAttempt{lease: l, attempt: c.mux.Acquire(l.claim, o.ttl, len(keys))}
		}
		outcome, decided := t.pending.outcome(ctx, w)
		if !decided {
			return nil, false, nil
		}
		l, a := t.pending.lease, t.pending.attempt
		t.pending = pendingAttempt{}
		held, err = c.finishAttempt(l, a, *o, attemptError(outcome))
		if err == nil || !o.fencing {
			return held, true, err
		}
		again, cleanUp := t.retry.next(a)
		if cleanUp && w == nil {
			// If it is not confirmed, at worst the next attempt is refused.
			_ = c.mux.Release(l.claim, len(keys)).Wait(ctx, time.Time{})
		}
		if !again || cleanUp && w != nil || ctx.Err() != nil {
			return nil, true, err
		}
	}
}

// finishAttempt begins the term of a lease if a quorum granted its attempt.
func (c *Client) finishAttempt(l *Lease, a parts.Attempt, o callOptions, outcome error) (
	*Lease, error,
) {
	if outcome != nil {
		if c.isClosing() {
			outcome = errorf("%w: %w", ErrClosed, outcome)
		}
		c.outcomes.attempt(acquireOutcome(outcome), time.Since(a.Sent()))
		return nil, outcome
	}
	grant := lease.Grant{Sent: a.Sent(), Suspended: o.suspended, TTL: o.ttl, MaxHold: o.maxHold}
	err := c.leases(l).Hold(&l.term, l, grant)
	if err == nil {
		c.outcomes.granted(&o, l.term.Began(), a.Sent())
		return l, nil
	}
	c.mux.Release(l.claim, l.claim.Len())
	if err != ErrExpired {
		c.outcomes.attempt(acquireOutcome(err), time.Since(a.Sent()))
		return nil, err
	}
	c.outcomes.attempt(outcomes.Late, time.Since(a.Sent()))
	passed := time.Since(a.Sent()) + c.suspended() - o.suspended
	return nil, errorf("%w: a quorum granted, but %v of the %v had passed", ErrNoQuorum, passed,
		o.ttl)
}
