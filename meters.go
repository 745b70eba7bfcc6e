package lockpipe

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/latency"
)

// callKind is which calls are counted together.
type callKind uint8

const (
	callTry   callKind = iota // TryAcquire, TryAcquireAll
	callWait                  // Acquire, AcquireAll, Do
	callEach                  // each key of TryAcquireEach
	callAsync                 // AcquireAsync
)

// outcome is how a call, an attempt, an extension or a release ended, as far as counts tell it.
type outcome uint8

const (
	outcomeGranted      outcome = iota // a lease
	outcomeHeld                        // ErrHeld
	outcomeNoQuorum                    // ErrNoQuorum
	outcomeLate                        // a quorum granted, but the time was over
	outcomeCanceled                    // the caller's ctx ended
	outcomeOverloaded                  // ErrOverloaded
	outcomeClosed                      // ErrClosed
	outcomeRejected                    // ErrInvalid
	outcomeReleased                    // by its holder
	outcomeExpired                     // ErrExpired
	outcomeLost                        // ErrLost
	outcomeConfirmed                   // by a quorum
	outcomeHandedOver                  // to the next caller of this process
	outcomeAlreadyEnded                // it had ended before
)

// String is the outcome's name in the metrics.
func (o outcome) String() string {
	return [...]string{
		"granted", "held", "no_quorum", "late", "canceled", "overloaded", "closed", "invalid",
		"released", "expired", "lost", "confirmed",
		"handed_over", "already_ended",
	}[o]
}

// The outcomes that there are of each, in the order of the metrics.
var (
	callKinds = [...]string{
		callTry: "try", callWait: "wait", callEach: "each",
		callAsync: "async",
	}
	callOutcomes = [...]outcome{
		outcomeGranted, outcomeHeld, outcomeNoQuorum, outcomeCanceled,
		outcomeOverloaded, outcomeClosed, outcomeRejected,
	}
	attemptOutcomes = [...]outcome{
		outcomeGranted, outcomeHeld, outcomeNoQuorum, outcomeLate,
		outcomeCanceled, outcomeOverloaded, outcomeClosed,
	}
	extensionOutcomes = [...]outcome{
		outcomeConfirmed, outcomeNoQuorum, outcomeCanceled, outcomeLost, outcomeAlreadyEnded,
	}
	endOutcomes     = [...]outcome{outcomeReleased, outcomeExpired, outcomeLost, outcomeClosed}
	releaseOutcomes = [...]outcome{
		outcomeConfirmed, outcomeHandedOver, outcomeNoQuorum, outcomeCanceled, outcomeAlreadyEnded,
	}
)

// meters count what the calls of a Client come to. They are touched a few times for each call, and
// nothing waits for anything.
type meters struct {
	// By outcome, from before the first byte.
	attempts [outcomeRejected]latency.Histogram
	// Calls that were granted, from the call to the lease.
	grants     [len(callKinds)]latency.Histogram
	failures   [len(callKinds)][outcomeRejected + 1]atomic.Uint64 // calls that were not
	holds      [outcomeLost + 1]latency.Histogram                 // leases that are over
	extensions [outcomeAlreadyEnded + 1]atomic.Uint64
	releases   [outcomeAlreadyEnded + 1]atomic.Uint64
}

// outcomeOf is the outcome of an acquiring call or attempt.
func outcomeOf(err error) outcome {
	switch _, bare := err.(*HeldError); { //nolint:errorlint // what wraps it is looked at below
	case err == nil:
		return outcomeGranted
	case bare: // by far the most
		return outcomeHeld
	case errors.Is(err, ErrInvalid):
		return outcomeRejected
	case errors.Is(err, ErrClosed):
		return outcomeClosed
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return outcomeCanceled
	case errors.Is(err, ErrOverloaded):
		return outcomeOverloaded
	case errors.Is(err, ErrHeld):
		return outcomeHeld
	}
	return outcomeNoQuorum
}

// attempt counts an attempt.
func (m *meters) attempt(o outcome, took time.Duration) { m.attempts[o].Observe(took) }

// failed counts calls that were not granted.
func (m *meters) failed(k callKind, err error, calls int) {
	m.failures[k][outcomeOf(err)].Add(uint64(calls))
}

// granted counts an attempt and its call that got a lease, which began at that time.
func (m *meters) granted(o *callOptions, began, sent time.Time) {
	if o.start.IsZero() { // the call is the attempt: see tried
		m.grants[o.kind].Observe(began.Sub(sent))
		return
	}
	m.attempt(outcomeGranted, began.Sub(sent))
	m.grant(o, began)
}

// tried returns the attempts of an outcome. Those of calls that make just one were not counted for
// themselves, to spare the usual call a part of its cost.
func (m *meters) tried(o outcome) latency.Counts {
	counts := m.attempts[o].Counts()
	if o == outcomeGranted {
		counts = counts.Plus(m.grants[callTry].Counts()).Plus(m.grants[callEach].Counts())
	}
	return counts
}

// grant counts a call that got a lease, which began at that time.
func (m *meters) grant(o *callOptions, began time.Time) {
	m.grants[o.kind].Observe(began.Sub(o.start))
}

// ended counts a lease that is over.
func (m *meters) ended(end error, kept time.Duration) {
	o := outcomeReleased
	switch {
	case end == ErrReleased:
	case end == ErrClosed:
		o = outcomeClosed
	case errors.Is(end, ErrLost):
		o = outcomeLost
	default:
		o = outcomeExpired
	}
	m.holds[o].Observe(kept)
}

// released counts a release that was sent.
func (m *meters) released(err error) { m.releases[confirmation(err)].Add(1) }

// extended counts an extension.
func (m *meters) extended(err error) { m.extensions[confirmation(err)].Add(1) }

// confirmation is the outcome of an extension or a release.
func confirmation(err error) outcome {
	switch {
	case err == nil:
		return outcomeConfirmed
	case errors.Is(err, ErrLost):
		return outcomeLost
	case errors.Is(err, ErrExpired) || errors.Is(err, ErrReleased) || errors.Is(err, ErrClosed):
		return outcomeAlreadyEnded
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return outcomeCanceled
	}
	return outcomeNoQuorum
}
