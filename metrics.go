package lockpipe

import (
	"context"
	"errors"
	"time"

	"github.com/lockpipe/lockpipe/internal/metrics"
)

// callMetrics counts what the calls of a Client come to: it knows which outcome an error is.
type callMetrics struct{ counters metrics.Counters }

// attempt counts an attempt without a lease.
func (m *callMetrics) attempt(o metrics.Outcome, took time.Duration) { m.counters.Attempt(o, took) }

// failed counts calls that were not granted.
func (m *callMetrics) failed(k metrics.Call, err error, calls int) {
	m.counters.CallFailed(k, acquireOutcome(err), calls)
}

// granted counts an attempt and its call that got a lease, which began at that time.
func (m *callMetrics) granted(o *callOptions, began, sent time.Time) {
	if o.start.IsZero() { // the call is the attempt
		m.counters.CallGranted(o.kind, began.Sub(sent))
		return
	}
	m.counters.Attempt(metrics.Granted, began.Sub(sent))
	m.grant(o, began)
}

// grant counts a call that got a lease, which began at that time.
func (m *callMetrics) grant(o *callOptions, began time.Time) {
	m.counters.CallGranted(o.kind, began.Sub(o.start))
}

// ended counts a lease that is over.
func (m *callMetrics) ended(end error, held time.Duration) {
	o := metrics.Expired
	switch {
	case end == ErrReleased:
		o = metrics.Released
	case end == ErrClosed:
		o = metrics.Closed
	case errors.Is(end, ErrLost):
		o = metrics.Lost
	}
	m.counters.Ended(o, held)
}

// released counts a release that was sent.
func (m *callMetrics) released(err error) { m.counters.Released(confirmation(err)) }

// releasedUnsent counts a release that nothing was sent for.
func (m *callMetrics) releasedUnsent(o metrics.Outcome) { m.counters.Released(o) }

// extended counts an extension.
func (m *callMetrics) extended(err error) { m.counters.Extended(confirmation(err)) }

// acquireOutcome returns the outcome of an acquiring call or attempt.
func acquireOutcome(err error) metrics.Outcome {
	switch _, bare := err.(*HeldError); { //nolint:errorlint // what wraps it is looked at below
	case err == nil:
		return metrics.Granted
	case bare: // by far the most
		return metrics.Held
	case errors.Is(err, ErrInvalid):
		return metrics.Invalid
	case errors.Is(err, ErrClosed):
		return metrics.Closed
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return metrics.Canceled
	case errors.Is(err, ErrOverloaded):
		return metrics.Overloaded
	case errors.Is(err, ErrHeld):
		return metrics.Held
	}
	return metrics.NoQuorum
}

// confirmation returns the outcome of an extension or a release.
func confirmation(err error) metrics.Outcome {
	switch {
	case err == nil:
		return metrics.Confirmed
	case errors.Is(err, ErrLost):
		return metrics.Lost
	case errors.Is(err, ErrExpired) || errors.Is(err, ErrReleased) || errors.Is(err, ErrClosed):
		return metrics.AlreadyEnded
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return metrics.Canceled
	}
	return metrics.NoQuorum
}
