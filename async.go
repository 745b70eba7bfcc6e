package lockpipe

import (
	"context"
	"slices"

	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/stats"
)

// AcquireAsync is AcquireAll on a goroutine of the Client. It returns at once. The Client calls
// done once, with the lease or with the error that AcquireAll would have returned. Calls for the
// same keys, in the same order and without a limit of attempts, are granted in the order in which
// they were made. The Client starts the done functions in the order of the grants, on the
// goroutines that run OnLost. 64 run at the same time; if all block, further functions wait. The
// lease's time runs while its done waits. The caller may change keys after AcquireAsync returned.
//
// If AcquireAsync itself returns an error, done is never called. The error is ErrInvalid,
// ErrClosed, ctx's error, or ErrOverloaded while 65,536 calls are pending or wait for their done. A
// pending call takes a goroutine and some six kilobytes.
func (c *Client) AcquireAsync(ctx context.Context, keys []string, done func(*Lease, error),
	opts ...Option,
) error {
	if done == nil {
		return c.countInvalid(stats.Async,
			invalid("done is nil: give the function that takes the lease"), 1)
	}
	keys, o, err := c.validateCall(ctx, stats.Async, slices.Clone(keys), opts)
	if err != nil {
		return c.countInvalid(stats.Async, err, 1)
	}
	f := c.calls.AcquireAsync(ctx, keys, &o, func(l *locker.Lease, f *locker.Failure) {
		done(result(l, f))
	})
	if f != nil {
		return failureError(f)
	}
	return nil
}
