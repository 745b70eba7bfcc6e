package calls

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/locker"
)

// AcquireAsync is Acquire on a goroutine of the client: it returns at once, and done is called
// later, with a lease or a failure. If it returns a failure, done is never called. It keeps keys.
func (c *Calls) AcquireAsync(ctx context.Context, keys []string, o *locker.Options,
	done func(*locker.Lease, *locker.Failure),
) *locker.Failure {
	opts, s := *o, (*waitingCall)(nil)
	opts.Start = time.Now()
	if f := c.locker.Begin(ctx, opts.Kind, 1); f != nil {
		return f
	}
	if opts.MaxAttempts == 0 {
		s = newWaitingCall(ctx, c, keys, &opts)
	}
	if c.asyncs.Add(1) > locker.MaxPending || s != nil && !s.enter() {
		c.asyncs.Add(-1)
		c.locker.End()
		return c.locker.Count(ctx, opts.Kind, locker.Overloaded())
	}
	c.run.Go(func() {
		acquire := func() (*locker.Lease, *locker.Failure) { return c.acquire(ctx, keys, &opts) }
		if s != nil { // its place in the queue is taken
			acquire = s.wait
		}
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
