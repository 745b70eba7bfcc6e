package lockpipe

import (
	"context"
	"errors"
	"time"

	"github.com/lockpipe/lockpipe/internal/waiting"
	"github.com/lockpipe/lockpipe/multiplex"
)

// limitedCall is a call with WithMaxAttempts. It does not queue, and asks all nodes in each of its
// attempts. Between two of them it waits for a random delay.
type limitedCall struct {
	client   *Client
	keys     []string
	opts     callOptions
	attempts int
	reason   error     // of the last attempt that was decided; nil before the first
	nextAt   time.Time // when to make the next attempt

	waker *multiplex.Waker // nil: advance waits for the attempts
	try   fencedTry        // under way
}

// advance implements pendingCall.
func (s *limitedCall) advance(ctx context.Context) (l *Lease, delay time.Duration, err error) {
	for {
		if s.try.pending.attempt == nil {
			if end := s.client.endReason(ctx); end != nil {
				return nil, 0, s.abortError(end)
			}
			if delay = time.Until(s.nextAt); delay > 0 {
				return nil, delay, nil
			}
		}
		l, decided, err := s.try.advance(ctx, s.client, s.keys, &s.opts, s.waker)
		if l != nil || !decided {
			return l, noTimer, nil
		}
		if err = s.failed(ctx, err); err != nil {
			return nil, 0, err
		}
	}
}

// leave implements pendingCall. The call is in no queue.
func (s *limitedCall) leave(*Lease) {}

// failed takes the error of an attempt. It returns the error that ends the call, or nil if a
// further attempt follows.
func (s *limitedCall) failed(ctx context.Context, err error) error {
	if s.reason != nil && cutShort(ctx, err) {
		return s.abortError(ctx.Err()) // err says nothing new about the keys
	}
	if !retryable(err) {
		return err
	}
	s.attempts++
	s.reason = err
	switch {
	case ctx.Err() != nil:
		return s.abortError(ctx.Err())
	case s.attempts == s.opts.maxAttempts:
		return s.opts.finalError(s.keys, err)
	}
	delay := s.opts.retryDelay()
	if errors.Is(err, ErrNoQuorum) {
		delay = waiting.NoQuorumDelay(delay)
	}
	s.nextAt = time.Now().Add(delay)
	return nil
}

// abortError returns the error of a call that ctx or Close ended with end.
func (s *limitedCall) abortError(end error) error {
	if s.reason == nil { // no attempt was made
		return errorf("%w", end)
	}
	return s.opts.finalError(s.keys, withEnd(s.reason, end))
}
