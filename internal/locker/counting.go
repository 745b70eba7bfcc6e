package locker

import (
	"context"
	"errors"
	"time"

	"github.com/lockpipe/lockpipe/internal/stats"
	"github.com/lockpipe/lockpipe/lease"
)

// Count counts a call with this ctx that ended with f, sets f.Own, and returns f. A call that was
// granted is counted already.
func (k *Locker) Count(ctx context.Context, kind stats.Call, f *Failure) *Failure {
	if f != nil {
		f.Own = f.IsHeld() && k.isOwn(ctx, f.Votes.Keys)
		k.Outcomes.Failures[kind][f.outcome()].Add(1)
	}
	return f
}

// countGranted counts an attempt and its call that got a lease, which began at that time.
func (k *Locker) countGranted(o *Options, began, sent time.Time) {
	if o.Start.IsZero() { // the call is the attempt
		k.Outcomes.Grants[o.Kind].Observe(began.Sub(sent))
		return
	}
	k.Outcomes.Attempts[stats.Granted].Observe(began.Sub(sent))
	k.Outcomes.Grants[o.Kind].Observe(began.Sub(o.Start))
}

// endOutcome returns how a lease ended.
func endOutcome(end error) stats.Outcome {
	switch {
	case end == lease.ErrReleased:
		return stats.Released
	case end == lease.ErrKept:
		return stats.Kept
	case end == lease.ErrClosed:
		return stats.Closed
	case errors.Is(end, lease.ErrLost):
		return stats.Lost
	}
	return stats.Expired
}

// confirmation returns the outcome of an extension or a release.
func confirmation(err error) stats.Outcome {
	switch {
	case err == nil:
		return stats.Confirmed
	case errors.Is(err, lease.ErrLost):
		return stats.Lost
	case errors.Is(err, lease.ErrExpired) || errors.Is(err, lease.ErrReleased) ||
		errors.Is(err, lease.ErrClosed) || errors.Is(err, lease.ErrKept):
		return stats.AlreadyEnded
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return stats.Canceled
	}
	return stats.NoQuorum
}
