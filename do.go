package lockpipe

import (
	"context"
	"errors"

	"github.com/lockpipe/lockpipe/internal/outcomes"
)

// Do runs fn while it holds key. It waits for key as Acquire does, and releases it when fn returns
// or panics. The context of fn is cancelled when ctx or the lease ends; its cause says why. If
// Acquire fails, Do returns its error and does not run fn. Otherwise it returns fn's error. If the
// lease ended while fn ran, Do joins how: ErrExpired, ErrLost or ErrClosed. What fn did last was
// not protected then. If the release was not confirmed, Do joins its error. If fn is nil, the error
// is ErrInvalid, and nothing is acquired.
func (c *Client) Do(ctx context.Context, key string, fn func(ctx context.Context) error,
	opts ...Option,
) (err error) {
	if fn == nil {
		err := invalid("fn is nil: give the function that runs while the key is held")
		c.outcomes.failed(outcomes.Wait, err, 1)
		return err
	}
	l, err := c.Acquire(ctx, key, opts...)
	if err != nil {
		return err
	}
	inner, cancel := context.WithCancelCause(ctx)
	held := &leaseBoundContext{inner, l, cancel}
	stop := context.AfterFunc(l.Context(), func() { cancel(context.Cause(l.Context())) })
	defer func() {
		stop()
		cancel(nil)
		// If ctx has ended, the release is sent anyway. It waits only for nodes that answer.
		if r := l.Release(context.WithoutCancel(ctx)); r != nil {
			err = errors.Join(err, errorf("release of %.64q: %w", key, r))
		}
	}()
	return fn(held)
}

// leaseBoundContext reads the clock before it says that it has not ended, as the context of the
// lease does.
type leaseBoundContext struct {
	context.Context
	lease  *Lease
	cancel context.CancelCauseFunc
}

func (c *leaseBoundContext) Err() error {
	if end := c.lease.Err(); end != nil {
		c.cancel(end)
	}
	return c.Context.Err()
}
