package lockpipe

import (
	"context"
	"errors"
	"time"

	"github.com/lockpipe/lockpipe/internal/outcomes"
)

// callOutcomes counts what the calls of a Client come to: it knows which outcome an error is.
type callOutcomes struct{ counters outcomes.Counters }

// attempt counts an attempt without a lease.
func (m *callOutcomes) attempt(o outcomes.Outcome, took time.Duration) {
	m.counters.Attempt(o, took)
}

// failed counts calls that were not granted.
func (m *callOutcomes) failed(k outcomes.Call, err error, calls int) {
	m.counters.CallFailed(k, acquireOutcome(err), calls)
}

// granted counts an attempt and its call that got a lease, which began at that time.
func (m *callOutcomes) granted(o *callOptions, began, sent time.Time) {
	if o.start.IsZero() { // the call is the attempt
		m.counters.CallGranted(o.kind, began.Sub(sent))
		return
	}
	m.counters.Attempt(outcomes.Granted, began.Sub(sent))
	m.grant(o, began)
}

// grant counts a call that got a lease, which began at that time.
func (m *callOutcomes) grant(o *callOptions, began time.Time) {
	m.counters.CallGranted(o.kind, began.Sub(o.start))
}

// ended counts a lease that is over.
func (m *callOutcomes) ended(end error, held time.Duration) {
	o := outcomes.Expired
	switch {
	case end == ErrReleased:
		o = outcomes.Released
	case end == ErrKept:
		o = outcomes.Kept
	case end == ErrClosed:
		o = outcomes.Closed
	case errors.Is(end, ErrLost):
		o = outcomes.Lost
	}
	m.counters.Ended(o, held)
}

// released counts a release that was sent.
func (m *callOutcomes) released(err error) { m.counters.Released(confirmation(err)) }

// releasedUnsent counts a release that nothing was sent for.
func (m *callOutcomes) releasedUnsent(o outcomes.Outcome) { m.counters.Released(o) }

// extended counts an extension.
func (m *callOutcomes) extended(err error) { m.counters.Extended(confirmation(err)) }

// acquireOutcome returns the outcome of an acquiring call or attempt.
func acquireOutcome(err error) outcomes.Outcome {
	switch _, bare := err.(*HeldError); { //nolint:errorlint // what wraps it is looked at below
	case err == nil:
		return outcomes.Granted
	case bare: // by far the most
		return outcomes.Held
	case errors.Is(err, ErrInvalid):
		return outcomes.Invalid
	case errors.Is(err, ErrClosed):
		return outcomes.Closed
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return outcomes.Canceled
	case errors.Is(err, ErrOverloaded):
		return outcomes.Overloaded
	case errors.Is(err, ErrHeld):
		return outcomes.Held
	}
	return outcomes.NoQuorum
}

// confirmation returns the outcome of an extension or a release.
func confirmation(err error) outcomes.Outcome {
	switch {
	case err == nil:
		return outcomes.Confirmed
	case errors.Is(err, ErrLost):
		return outcomes.Lost
	case errors.Is(err, ErrExpired) || errors.Is(err, ErrReleased) || errors.Is(err, ErrClosed):
		return outcomes.AlreadyEnded
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return outcomes.Canceled
	}
	return outcomes.NoQuorum
}
