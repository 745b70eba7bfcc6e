package lockpipe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/lease"
)

// Extend gives the lease a new TTL from now on, longer or shorter than what is left. With
// WithAutoExtend the lease still ends when maxHold has passed, and later automatic extensions use
// this ttl too. A node that lost the keys, or never had them, gets them, but does not count for
// this extension. Concurrent calls on one lease take turns. After nil the lease is valid until
// Until.
//
// A shorter ttl ends the lease sooner, but not the keys on the nodes. The client deletes them when
// the lease ends. If the process crashes before that, or can't reach a node, the keys last there
// for the longer time that an earlier call asked for.
//
// The errors:
//
//   - ErrNoQuorum: the extension is not confirmed. The lease is valid until Until, which a shorter
//     ttl may have brought nearer. Try again.
//   - ErrLost: a quorum does not have the lease any more, and it is over.
//   - ErrExpired, ErrReleased, ErrClosed, ErrKept: the lease was over before.
//   - ErrInvalid: ttl is below 10 ms or above Config.MaxTTL.
//
// If ctx ended first, errors.Is finds its error too.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	switch {
	case l.isZero():
		return ErrReleased
	case ctx == nil:
		return errNilContext
	}
	if err := l.client.checkTTL("Extend", ttl); err != nil {
		return err
	}
	return l.extend(ctx, ttl.Truncate(time.Millisecond), false)
}

// extend gives the keys a new TTL. If keep is set, it ends the lease then.
func (l *Lease) extend(ctx context.Context, ttl time.Duration, keep bool) error {
	// As in startRelease.
	l.client.calls.Add(1)
	defer l.client.endCall()
	if err := ctx.Err(); err != nil && l.Err() == nil {
		return errorf("%w", err)
	}
	begin := l.term.BeginExtension
	if keep {
		begin = l.term.BeginKeep
	}
	e, err := begin(ctx, ttl)
	if err != nil {
		return err
	}
	a := l.client.mux.Extend(l.claim, e.TTL, e.SendBefore, 0, l.claim.Len())
	e.Sent, e.Err = a.Sent(), extensionError(attemptError(a.Wait(ctx, time.Time{})))
	a.Done()
	err = e.Finish()
	l.client.outcomes.extended(err)
	if err != nil && l.Err() != nil {
		l.releaseInBackground() // the nodes may have extended it
	}
	return err
}

// extendBatch makes the extensions that are due together, in the order of their deadlines.
func (c *Client) extendBatch(ctx context.Context, due []lease.Extension) {
	keys := 0
	for i := range due {
		keys += due[i].Owner.(*Lease).claim.Len()
	}
	attempts := make([]parts.Attempt, len(due))
	began := time.Now()
	together := c.mux.Extensions(keys)
	for i := range due {
		e := &due[i]
		l := e.Owner.(*Lease)
		attempts[i] = together.Add(l.claim, e.TTL, e.SendBefore, e.MinTimeout)
	}
	together.Send()
	for i, a := range attempts {
		e := &due[i]
		e.Sent, e.Err = a.Sent(), extensionError(attemptError(a.Wait(ctx, began)))
		a.Done()
		c.outcomes.extended(e.Finish()) // leaseEnded is called if it is over
	}
}

// extensionError is what the outcome of an extension means for the lease.
func extensionError(err error) error {
	var held *HeldError
	if errors.As(err, &held) {
		return errorf("%w: %w", ErrLost, &lostError{held})
	}
	return err
}

// lostError says how many nodes do not have the lease any more. It is no ErrHeld: the caller wanted
// to keep the lease, not to acquire it.
type lostError struct{ held *HeldError }

func (e *lostError) Error() string {
	return fmt.Sprintf("%d nodes do not hold it any more: %v", len(e.held.Nodes), e.held.Nodes)
}
