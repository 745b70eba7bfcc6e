package locker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/internal/prefix"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Extend gives the keys a new TTL. The error is nil, how the lease ended, ctx's, or that of
// Config.VotesError.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	k := l.locker
	// As in startRelease.
	k.calls.count.Add(1)
	defer k.End()
	e, err := l.term.BeginExtension(ctx, ttl)
	if err != nil {
		return l.named(err)
	}
	a := l.claim.Extend(e.TTL, e.SendBefore, 0, l.claim.Len())
	e.Err = l.extensionError(a.Wait(ctx))
	err = e.Finish()
	k.Outcomes.Extensions[confirmation(err)].Add(1)
	if err != nil && l.Err() != nil {
		l.releaseInBackground() // the nodes may have extended it
	}
	return l.named(err)
}

// named returns an error of a call with a text that says which lease it is about.
func (l *Lease) named(err error) error {
	if err == nil || errors.As(err, new(*lease.EndError)) {
		return err
	}
	return prefix.Errorf("%v: %w", l, err)
}

// extendBatch makes the extensions that are due together, in the order of their deadlines.
func (k *Locker) extendBatch(ctx context.Context, due []lease.Extension) {
	keys := 0
	for i := range due {
		keys += due[i].Owner.(*Lease).claim.Len()
	}
	attempts := make([]parts.Attempt, len(due))
	for i := range due {
		e := &due[i]
		attempts[i] = e.Owner.(*Lease).claim.Extend(e.TTL, e.SendBefore, e.MinTimeout, keys)
	}
	for i, a := range attempts {
		e := &due[i]
		e.Err = e.Owner.(*Lease).extensionError(a.Wait(ctx))
		k.Outcomes.Extensions[confirmation(e.Finish())].Add(1) // leaseEnded is called if it is over
	}
}

// extensionError is what the votes on an extension mean for the lease. If it is lost, that is no
// ErrHeld: the caller wanted to keep the lease, not to acquire it.
func (l *Lease) extensionError(votes multiplex.Outcome) error {
	if votes.Result == multiplex.Held {
		lost := fmt.Errorf("%w: %d nodes do not hold it any more: %v", lease.ErrLost,
			len(votes.Nodes), votes.Nodes)
		return &lease.EndError{End: lost, Owner: l, At: time.Now()}
	}
	return l.locker.cfg.VotesError(votes)
}
