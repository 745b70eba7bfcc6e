package lockpipe

import (
	"context"
	"strconv"

	"github.com/lockpipe/lockpipe/internal/stats"
)

// Slots returns the keys name:1 to name:n. AcquireAny of them lets at most n callers hold one at
// the same time: a semaphore. All callers must use the same n. Each slot has a quorum of its own. A
// counter on each node would admit more than n callers. With n = 2 and three nodes, callers on
// {1,2}, {2,3} and {1,3} each have a majority, while every node has counted only two.
func Slots(name string, n int) []string {
	keys := make([]string, max(n, 0))
	for i := range keys {
		keys[i] = name + ":" + strconv.Itoa(i+1)
	}
	return keys
}

// TryAcquireAny takes one of keys that nobody holds; with WithCount(n) it takes n of them. It reads
// on all nodes which keys are free, and takes one, at random, as TryAcquireAll does: two round
// trips. Calls of this Client for the same keys at the same time share what they have read. If
// other callers take keys at the same moment, it makes up to three attempts. ErrHeld: too few keys
// are free, or other callers were faster, and perhaps no quorum has answered for the rest.
// It takes 1,000 keys at most, and no WithFencing. The other errors are those of TryAcquire.
func (c *Client) TryAcquireAny(ctx context.Context, keys []string, opts ...Option) (*Lease, error) {
	return c.acquireAny(ctx, stats.Try, keys, opts)
}

// AcquireAny is TryAcquireAny, but it waits until so many keys are free, or ctx ends. Calls of this
// Client that wait for the same keys in the same order are granted in the order of arrival. The
// errors are those of Acquire.
func (c *Client) AcquireAny(ctx context.Context, keys []string, opts ...Option) (*Lease, error) {
	return c.acquireAny(ctx, stats.Wait, keys, opts)
}

func (c *Client) acquireAny(ctx context.Context, kind stats.Call, keys []string, opts []Option) (
	*Lease, error,
) {
	opts = append([]Option{{kind: optionAny}}, opts...)
	keys, o, err := c.validateCall(ctx, kind, keys, opts)
	switch {
	case err != nil:
	case len(keys) > 1000:
		err = invalid("%d keys of which to take any: give at most 1000", len(keys))
	case o.Count < 1 || o.Count > len(keys):
		err = invalid("WithCount(%d) of %d different keys: give from 1 to their number", o.Count,
			len(keys))
	case o.Fencing:
		err = invalid("AcquireAny and TryAcquireAny can't use WithFencing: a fence belongs to one " +
			"fixed key; use Acquire")
	}
	if err != nil {
		return nil, c.countInvalid(kind, err, 1)
	}
	return result(c.calls.AcquireAny(ctx, keys, &o))
}
