package lockpipe

import (
	"context"
	"errors"
)

// Do runs fn while it holds key: it waits for key as Acquire does, and releases it when fn returns
// or panics. The context of fn is cancelled when ctx ends or when the lease does, and then its
// cause tells why. Do returns the error of Acquire without running fn; else fn's error, joined with
// how the lease ended if it did so while fn ran (ErrExpired, ErrLost or ErrClosed: what fn did last
// was not protected), or with the error of a release that was not confirmed. If fn is nil, the
// error is ErrInvalid, and nothing is acquired.
func (c *Client) Do(ctx context.Context, key string, fn func(ctx context.Context) error,
	opts ...Option,
) (err error) {
	if fn == nil {
		err := invalid("fn is nil: give the function that runs while the key is held")
		c.meters.failed(callWait, err, 1)
		return err
	}
	l, err := c.Acquire(ctx, key, opts...)
	if err != nil {
		return err
	}
	inner, cancel := context.WithCancelCause(ctx)
	held := &heldContext{inner, l, cancel}
	stop := context.AfterFunc(l.Context(), func() { cancel(context.Cause(l.Context())) })
	defer func() {
		stop()
		cancel(nil)
		// A caller that left must not keep the release from being sent; it waits only for nodes
		// that do answer.
		if r := l.Release(context.WithoutCancel(ctx)); r != nil {
			err = errors.Join(err, errorf("release of %.64q: %w", key, r))
		}
	}()
	return fn(held)
}

// heldContext asks the clock before it says that it has not ended, as the context of the lease
// does.
type heldContext struct {
	context.Context
	lease  *Lease
	cancel context.CancelCauseFunc
}

func (c *heldContext) Err() error {
	if end := c.lease.Err(); end != nil {
		c.cancel(end)
	}
	return c.Context.Err()
}
