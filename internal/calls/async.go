package calls

import (
	"context"

	"github.com/lockpipe/lockpipe/internal/locker"
)

// AcquireAsync is Acquire on a goroutine of the client: it returns at once, and done is called
// later, with a lease or a failure. If it returns a failure, done is never called. It keeps keys.
func (c *Calls) AcquireAsync(ctx context.Context, keys []string, o *locker.Options,
	done func(*locker.Lease, *locker.Failure),
) *locker.Failure {
	if f := c.begin(ctx, o); f != nil {
		return f
	}
	opts := *o
	acquire, f := c.startAsync(ctx, keys, &opts)
	if f != nil {
		c.locker.End()
		return c.locker.Count(ctx, opts.Kind, f)
	}
	c.run.Go(func() {
		l, f := acquire()
		c.locker.Count(ctx, opts.Kind, f)
		c.run.Run(func() {
			c.asyncs.Add(-1)
			done(l, f)
		})
		c.locker.End()
	})
	return nil
}

// startAsync takes the place of a call in the queue. It returns what is left to do: to wait.
func (c *Calls) startAsync(ctx context.Context, keys []string, o *locker.Options) (
	acquire func() (*locker.Lease, *locker.Failure), f *locker.Failure,
) {
	if c.asyncs.Add(1) > locker.MaxPending {
		c.asyncs.Add(-1)
		return nil, locker.Overloaded()
	}
	if o.MaxAttempts > 0 {
		return func() (*locker.Lease, *locker.Failure) { return c.acquire(ctx, keys, o) }, nil
	}
	wake, wakeUp := newWake()
	s := newWaitingCall(ctx, c, keys, *o, wakeUp)
	if !s.enter() {
		c.asyncs.Add(-1)
		return nil, locker.Overloaded()
	}
	return func() (*locker.Lease, *locker.Failure) { return c.drive(ctx, s, wake) }, nil
}
