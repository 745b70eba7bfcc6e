package lockpipe

import (
	"context"
	"strconv"

	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/stats"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Slots returns the keys name:1 to name:n. AcquireAny of them lets at most n callers hold one at
// the same time: a semaphore. All callers must use the same n. Each slot has a quorum of its own. A
// counter on each node would admit more than n callers. For example, n is 2, and the callers have
// the nodes 1 and 2, 2 and 3, 1 and 3: three majorities, and each node counts two.
func Slots(name string, n int) []string {
	keys := make([]string, max(n, 0))
	for i := range keys {
		keys[i] = name + ":" + strconv.Itoa(i+1)
	}
	return keys
}

// TryAcquireAny takes one of keys that nobody holds, in one attempt of one round trip. Lease.Key
// says which one. Which of several free keys it takes is random. It never holds more than one, and
// what a node took besides is released. If others take keys at the same moment, it makes up to
// three attempts. ErrHeld means that all of them are held, or that others were faster.
// Keys of several groups are tried one group after the other, so a pool of keys is best kept in one
// group: see Config.Groups. ErrHeld then means that some are held, and no quorum for the rest.
//
// It takes 250 keys at most, and no WithFencing. The other errors are those of TryAcquire.
func (c *Client) TryAcquireAny(ctx context.Context, keys []string, opts ...Option) (*Lease, error) {
	keys, o, err := c.validateAny(ctx, stats.Try, keys, opts)
	if err != nil {
		return nil, c.countInvalid(stats.Try, err, 1)
	}
	return result(c.locker.TryAcquireAny(ctx, keys, &o))
}

// AcquireAny is TryAcquireAny, but it waits while all keys are held or no quorum can be reached,
// until ctx ends. Calls of this Client with the same keys in the same order are granted in the
// order of arrival. The errors are those of Acquire, and ErrHeld has all of the keys.
func (c *Client) AcquireAny(ctx context.Context, keys []string, opts ...Option) (*Lease, error) {
	keys, o, err := c.validateAny(ctx, stats.Wait, keys, opts)
	if err != nil {
		return nil, c.countInvalid(stats.Wait, err, 1)
	}
	return result(c.calls.AcquireAny(ctx, keys, &o))
}

// validateAny is validateCall for a call that wants one of the keys.
func (c *Client) validateAny(ctx context.Context, kind stats.Call, keys []string,
	opts []Option,
) ([]string, locker.Options, error) {
	keys, o, err := c.validateCall(ctx, kind, keys, opts)
	switch {
	case err != nil:
	case len(keys) > multiplex.MaxAny:
		err = invalid("%d keys of which to take any: give at most %d", len(keys), multiplex.MaxAny)
	case o.Fencing:
		err = invalid("AcquireAny and TryAcquireAny can't use WithFencing: a fence belongs to one " +
			"fixed key; use Acquire")
	}
	return keys, o, err
}
