package calls

import (
	"context"

	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/wait"
)

// acquireLimited is for a call with WithMaxAttempts. It does not queue. Between two attempts it
// waits for a random delay.
func (c *Calls) acquireLimited(ctx context.Context, keys []string, o *locker.Options,
	attempt func() (*locker.Lease, *locker.Failure),
) (*locker.Lease, *locker.Failure) {
	var last *locker.Failure // nil before the first one
	for made := 1; ; made++ {
		l, f := attempt()
		switch {
		case f == nil:
			return l, nil
		case last != nil && f.CutShort(ctx): // f says nothing new about the keys
			return nil, last.EndedBy(ctx.Err()).AfterWaiting(keys, o.Start)
		case !f.Retryable():
			return nil, f
		}
		end := ctx.Err()
		if end == nil && made < o.MaxAttempts {
			delay := o.RetryDelay()
			if f.IsNoQuorum() {
				delay = wait.NoQuorumDelay(delay)
			}
			end = c.locker.Sleep(ctx, delay)
		}
		switch last = f; {
		case end != nil:
			return nil, f.EndedBy(end).AfterWaiting(keys, o.Start)
		case made == o.MaxAttempts:
			return nil, f.AfterWaiting(keys, o.Start)
		}
	}
}
