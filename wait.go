package lockpipe

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/outcomes"
	"github.com/lockpipe/lockpipe/internal/waiting"
)

// acquire is a call that waits until its keys are granted. It counts failed calls.
func (c *Client) acquire(ctx context.Context, keys []string, opts []Option) (*Lease, error) {
	l, err := c.waitAcquire(ctx, keys, opts)
	if err != nil {
		c.outcomes.failed(outcomes.Wait, err, 1)
	}
	return l, err
}

func (c *Client) waitAcquire(ctx context.Context, keys []string, opts []Option) (*Lease, error) {
	keys, o, err := c.validateCall(ctx, outcomes.Wait, keys, opts)
	if err != nil {
		return nil, err
	}
	if err := c.beginCall(); err != nil {
		return nil, err
	}
	defer c.endCall()
	if err := ctx.Err(); err != nil {
		return nil, errorf("%w", err)
	}
	o.start = time.Now()
	if o.maxAttempts > 0 {
		return c.drive(ctx, &limitedCall{client: c, keys: keys, opts: o}, nil)
	}
	var failed error
	if !c.hasContention(keys) {
		l, err := c.attempt(ctx, keys, o)
		if err == nil || !retryable(err) {
			return l, err
		}
		failed = err
	}
	wake := make(chan struct{}, 1)
	s := newWaitingCall(ctx, c, keys, o, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if failed != nil {
		s.recordFailure(failed, true)
	}
	if !s.enter() {
		return nil, ErrOverloaded
	}
	return c.drive(ctx, s, wake)
}

// hasContention reports whether other calls of this process want one of these keys, or calls of
// another process did not long ago.
func (c *Client) hasContention(keys []string) bool {
	return c.queue.Knows(keys) || c.contended(keys, time.Now()).Key != ""
}

// contended returns what is known of other processes that contend for these keys: of the key for
// which a call backs off the longest.
func (c *Client) contended(keys []string, now time.Time) (most waiting.State) {
	if !c.contention.Any() {
		return most
	}
	for _, key := range keys {
		if known := c.contention.Lookup(key, now); most.Key == "" || known.Backoff > most.Backoff {
			most = known
		}
	}
	return most
}
