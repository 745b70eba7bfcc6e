package calls

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/waiting"
	"github.com/lockpipe/lockpipe/multiplex"
)

// limitedCall is a call with WithMaxAttempts. It does not queue, and asks all nodes in each of its
// attempts. Between two of them it waits for a random delay.
type limitedCall struct {
	calls    *Calls
	keys     []string
	any      bool // it takes any of the keys; then advance waits for the attempts
	opts     locker.Options
	attempts int
	reason   *locker.Failure // of the last attempt that was decided; nil before the first
	nextAt   time.Time       // when to make the next attempt

	waker *multiplex.Waker // nil: advance waits for the attempts
	try   locker.Try       // under way
}

// advance implements pendingCall.
func (s *limitedCall) advance(ctx context.Context) (l *locker.Lease, delay time.Duration,
	f *locker.Failure,
) {
	for {
		if !s.try.IsPending() {
			if end := s.calls.locker.EndReason(ctx); end != nil {
				return nil, 0, s.abort(end)
			}
			if delay = time.Until(s.nextAt); delay > 0 {
				return nil, delay, nil
			}
		}
		l, decided, f := s.attempt(ctx)
		if l != nil || !decided {
			return l, noTimer, nil
		}
		if f = s.failed(ctx, f); f != nil {
			return nil, 0, f
		}
	}
}

// attempt starts an attempt or continues the one under way. decided is false while it must wait.
func (s *limitedCall) attempt(ctx context.Context) (l *locker.Lease, decided bool,
	f *locker.Failure,
) {
	if s.any {
		l, f = s.calls.locker.TryAny(ctx, s.keys, &s.opts, 1)
		return l, true, f
	}
	return s.try.Advance(ctx, s.calls.locker, s.keys, &s.opts, s.waker)
}

// leave implements pendingCall. The call is in no queue.
func (s *limitedCall) leave(*locker.Lease) {}

// failed takes the failure of an attempt. It returns the failure that ends the call, or nil if a
// further attempt follows.
func (s *limitedCall) failed(ctx context.Context, f *locker.Failure) *locker.Failure {
	if s.reason != nil && f.CutShort(ctx) {
		return s.abort(ctx.Err()) // f says nothing new about the keys
	}
	if !f.Retryable() {
		return f
	}
	s.attempts++
	s.reason = f
	switch {
	case ctx.Err() != nil:
		return s.abort(ctx.Err())
	case s.attempts == s.opts.MaxAttempts:
		return f.AfterWaiting(s.keys, s.opts.Start)
	}
	delay := s.opts.RetryDelay()
	if f.IsNoQuorum() {
		delay = waiting.NoQuorumDelay(delay)
	}
	s.nextAt = time.Now().Add(delay)
	return nil
}

// abort returns the failure of a call that ctx or Close ended with end.
func (s *limitedCall) abort(end error) *locker.Failure {
	if s.reason == nil { // no attempt was made
		return &locker.Failure{End: end}
	}
	return s.reason.EndedBy(end).AfterWaiting(s.keys, s.opts.Start)
}
