package lockpipe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/multiplex"
)

// noTimer is a time for a timer that must not fire.
const noTimer = time.Duration(1<<63 - 1)

// pendingCall is a call that waits. Its owner calls advance, and again after each wake, when the
// delay is over, and when ctx or the client ends. After a lease or an error it calls leave.
type pendingCall interface {
	// advance takes all steps that can be taken now. It returns the lease, or the error that ends
	// the call, or the delay until the next step.
	advance(ctx context.Context) (l *Lease, delay time.Duration, err error)
	leave(l *Lease)
}

// drive takes the steps of a call until it ends, and waits in between.
func (c *Client) drive(ctx context.Context, s pendingCall, wake <-chan struct{}) (*Lease, error) {
	var timer *time.Timer // nil before the first delay
	ended, closing := ctx.Done(), c.closing
	for {
		l, delay, err := s.advance(ctx)
		if l != nil || err != nil {
			if timer != nil {
				timer.Stop()
			}
			s.leave(l)
			return l, err
		}
		if timer == nil {
			timer = time.NewTimer(delay)
		} else {
			timer.Reset(delay)
		}
		select {
		case <-wake:
		case <-timer.C:
		case <-ended:
			ended = nil // the call notices it at the next step that it may take
		case <-closing:
			closing = nil
		}
	}
}

// pendingAttempt is an attempt of a call that is under way.
type pendingAttempt struct {
	lease    *Lease
	attempt  parts.Attempt
	handoff  *handoff // which the attempt extends; nil for an acquire
	askedAll bool     // all nodes were asked at once
}

// outcome returns the outcome of the attempt. Without a waker it waits for that.
func (t *pendingAttempt) outcome(ctx context.Context, w *multiplex.Waker) (_ multiplex.Outcome,
	decided bool,
) {
	if w == nil {
		return t.attempt.Wait(ctx, time.Time{}), true
	}
	return t.attempt.Poll(ctx, w)
}

// endReason returns why a call ends before it is granted, or nil.
func (c *Client) endReason(ctx context.Context) error {
	select {
	case <-c.closing:
		return ErrClosed
	default:
		return ctx.Err()
	}
}

// cutShort reports whether err is of an attempt that the end of ctx cut short.
func cutShort(ctx context.Context, err error) bool {
	end := ctx.Err()
	return end != nil && errors.Is(err, end)
}

// withEnd adds to the reason of the last attempt why the call ended, if it is not in it.
func withEnd(reason, end error) error {
	if errors.Is(reason, end) {
		return reason
	}
	return errorf("%w: %w", reason, end)
}

// finalError adds to the error of a call with these options how long it waited, and for which keys,
// unless the error is of another kind.
func (o *callOptions) finalError(keys []string, err error) error {
	if err == nil || !retryable(err) {
		return err
	}
	more := ""
	if len(keys) > 1 {
		more = fmt.Sprintf(" and %d more", len(keys)-1)
	}
	return errorf("waited %v for %.64q%s: %w", time.Since(o.start).Round(time.Millisecond), keys[0],
		more, err)
}
