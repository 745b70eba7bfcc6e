package lockpipe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Extend lets the lease end ttl from now, later or earlier than it would have, but not later than
// its maxHold. Automatic extensions go on with this ttl. Nodes that lost the keys, or never had
// them, are given them again, but do not count this time. Concurrent calls on one lease go one
// after another. With nil the lease is valid until Until. ErrNoQuorum: not confirmed, the lease is
// valid until Until, which a shorter ttl may have brought nearer; try again. ErrLost: a quorum has
// not got the lease any more, and it is over. ErrExpired, ErrReleased, ErrClosed: it was over
// before. ErrInvalid: ttl is below 10 ms or above Config.MaxTTL. Where ctx ended first, its error
// is found too.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	switch {
	case l == nil:
		return ErrReleased
	case ctx == nil:
		return errNilContext
	}
	if err := l.client.checkTTL("Extend", ttl); err != nil {
		return err
	}
	// As in startRelease.
	l.client.calls.Add(1)
	defer l.client.leave()
	if err := ctx.Err(); err != nil && l.Err() == nil {
		return errorf("%w", err)
	}
	e, err := l.term.Begin(ctx, ttl.Truncate(time.Millisecond))
	if err != nil {
		return err
	}
	a := l.client.mux.Extend(l.claim, e.TTL, e.Before, 0, l.claim.Len())
	e.Sent, e.Err = a.Sent(), extended(a.Wait(ctx, time.Time{}))
	a.Done()
	err = e.Finish()
	l.client.meters.extended(err)
	if err != nil && l.Err() != nil {
		l.letGo() // the nodes may have extended it
	}
	return err
}

// extend makes extensions that are due in one go, one after the other in the order of their
// deadlines.
func (c *Client) extend(ctx context.Context, due []lease.Extension) {
	keys := 0
	for i := range due {
		keys += due[i].Owner.(*Lease).claim.Len()
	}
	attempts := make([]*multiplex.Attempt, len(due))
	began := time.Now()
	for i := range due {
		e := &due[i]
		l := e.Owner.(*Lease)
		e.TTL = max(c.mux.MaxConfirmableTTL(l.claim, e.TTL), e.Least)
		attempts[i] = c.mux.Extend(l.claim, e.TTL, e.Before, e.Patience, keys)
	}
	for i, a := range attempts {
		e := &due[i]
		e.Sent, e.Err = a.Sent(), extended(a.Wait(ctx, began))
		a.Done()
		c.meters.extended(e.Finish()) // leaseEnded is told if it is over
	}
}

// extended is what the outcome of an extension means for the lease.
func extended(err error) error {
	var held *HeldError
	if errors.As(err, &held) {
		return errorf("%w: %w", ErrLost, &goneError{held})
	}
	return err
}

// goneError says how many nodes have the lease no more, without being an ErrHeld: the caller's
// attempt was to keep it.
type goneError struct{ held *HeldError }

func (e *goneError) Error() string {
	return fmt.Sprintf("%d nodes do not hold it any more: %v", len(e.held.Nodes), e.held.Nodes)
}
