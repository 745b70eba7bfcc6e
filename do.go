package lockpipe

import (
	"context"
	"errors"

	"github.com/lockpipe/lockpipe/internal/prefix"
	"github.com/lockpipe/lockpipe/internal/stats"
)

// Do runs fn while it holds key. It waits for key as Acquire does, and releases it when fn returns
// or panics. The context of fn is cancelled when ctx or the lease ends, or when Close begins; its
// cause says why. Close waits for fn, and so fn must not call Close. If Acquire fails, Do returns
// its error and does not run fn. Otherwise it returns fn's error. If the lease ended while fn ran,
// Do joins how: ErrExpired or ErrLost. What fn did last was not protected then. If Close began
// while fn ran, Do joins ErrClosed. If the release was not confirmed, Do joins its error. If fn is
// nil, the error is ErrInvalid, and nothing is acquired.
func (c *Client) Do(ctx context.Context, key string, fn func(ctx context.Context) error,
	opts ...Option,
) error {
	keys := [1]string{key}
	if fn == nil {
		return c.DoAll(ctx, keys[:], nil, opts...)
	}
	return c.DoAll(ctx, keys[:], func(ctx context.Context, _ *Lease) error { return fn(ctx) },
		opts...)
}

// DoAll is Do for many keys: all of them under one lease, as with AcquireAll. fn gets the lease
// too, for its Fence, or to extend it. fn may also end the lease, by Release or Keep. After Keep,
// DoAll releases nothing.
func (c *Client) DoAll(ctx context.Context, keys []string,
	fn func(ctx context.Context, lease *Lease) error, opts ...Option,
) error {
	_, err := c.do(ctx, keys, fn, opts)
	return err
}

// do is DoAll. It also returns the lease, which is over; nil if fn did not run.
func (c *Client) do(ctx context.Context, keys []string,
	fn func(ctx context.Context, lease *Lease) error, opts []Option,
) (l *Lease, err error) {
	if fn == nil {
		err := invalid("fn is nil: give the function that runs while the keys are held")
		return nil, c.countInvalid(stats.Wait, err, 1)
	}
	if _, open := c.locker.Functions.Enter(); open {
		defer c.locker.Functions.Leave()
	}
	l, err = c.acquire(ctx, keys, opts, true) // ErrClosed, if it did not begin
	if err != nil {
		return nil, err
	}
	bound, cut := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.locker.Open, func() { cut(ErrClosed) })
	held, unbind := l.bind(bound)
	defer func() { // if ctx has ended, the release is sent, and waits only for nodes that answer
		stop()
		unbind()
		cut(nil)
		r := l.Release(context.WithoutCancel(ctx))
		if context.Cause(bound) == ErrClosed && !errors.Is(r, ErrClosed) {
			err = errors.Join(err, prefix.Errorf("%.64q: %w", l.Key(), ErrClosed))
		}
		if r != nil {
			err = errors.Join(err, r)
		}
	}()
	return l, fn(held, l)
}
