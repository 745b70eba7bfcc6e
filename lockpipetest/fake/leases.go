package fake

import (
	"context"
	"slices"

	"github.com/lockpipe/lockpipe"
)

// The calls that acquire leases are those of lockpipe.Client. Here they also remember the leases,
// for Lose and Expire.

// TryAcquire is TryAcquire of lockpipe.Client.
func (c *Client) TryAcquire(ctx context.Context, key string, opts ...lockpipe.Option) (
	*lockpipe.Lease, error,
) {
	l, err := c.Client.TryAcquire(ctx, key, opts...)
	return c.remember(l), err
}

// TryAcquireAll is TryAcquireAll of lockpipe.Client.
func (c *Client) TryAcquireAll(ctx context.Context, keys []string, opts ...lockpipe.Option) (
	*lockpipe.Lease, error,
) {
	l, err := c.Client.TryAcquireAll(ctx, keys, opts...)
	return c.remember(l), err
}

// TryAcquireEach is TryAcquireEach of lockpipe.Client.
func (c *Client) TryAcquireEach(ctx context.Context, keys []string,
	opts ...lockpipe.Option,
) []lockpipe.Result {
	results := c.Client.TryAcquireEach(ctx, keys, opts...)
	for _, r := range results {
		c.remember(r.Lease)
	}
	return results
}

// Acquire is Acquire of lockpipe.Client.
func (c *Client) Acquire(ctx context.Context, key string, opts ...lockpipe.Option) (
	*lockpipe.Lease, error,
) {
	l, err := c.Client.Acquire(ctx, key, opts...)
	return c.remember(l), err
}

// AcquireAll is AcquireAll of lockpipe.Client.
func (c *Client) AcquireAll(ctx context.Context, keys []string, opts ...lockpipe.Option) (
	*lockpipe.Lease, error,
) {
	l, err := c.Client.AcquireAll(ctx, keys, opts...)
	return c.remember(l), err
}

// TryAcquireAny is TryAcquireAny of lockpipe.Client.
func (c *Client) TryAcquireAny(ctx context.Context, keys []string, opts ...lockpipe.Option) (
	*lockpipe.Lease, error,
) {
	l, err := c.Client.TryAcquireAny(ctx, keys, opts...)
	return c.remember(l), err
}

// AcquireAny is AcquireAny of lockpipe.Client.
func (c *Client) AcquireAny(ctx context.Context, keys []string, opts ...lockpipe.Option) (
	*lockpipe.Lease, error,
) {
	l, err := c.Client.AcquireAny(ctx, keys, opts...)
	return c.remember(l), err
}

// Adopt is Adopt of lockpipe.Client.
func (c *Client) Adopt(ctx context.Context, handle string, opts ...lockpipe.Option) (
	*lockpipe.Lease, error,
) {
	l, err := c.Client.Adopt(ctx, handle, opts...)
	return c.remember(l), err
}

// AcquireAsync is AcquireAsync of lockpipe.Client.
func (c *Client) AcquireAsync(ctx context.Context, keys []string,
	done func(*lockpipe.Lease, error), opts ...lockpipe.Option,
) error {
	if done == nil {
		return c.Client.AcquireAsync(ctx, keys, nil, opts...) // ErrInvalid
	}
	return c.Client.AcquireAsync(ctx, keys, func(l *lockpipe.Lease, err error) {
		done(c.remember(l), err)
	}, opts...)
}

// Do is Do of lockpipe.Client.
func (c *Client) Do(ctx context.Context, key string, fn func(ctx context.Context) error,
	opts ...lockpipe.Option,
) error {
	if fn == nil {
		return c.Client.Do(ctx, key, nil, opts...) // ErrInvalid
	}
	return c.DoAll(ctx, []string{key}, func(ctx context.Context, _ *lockpipe.Lease) error {
		return fn(ctx)
	}, opts...)
}

// DoAll is DoAll of lockpipe.Client.
func (c *Client) DoAll(ctx context.Context, keys []string, fn leaseFunc,
	opts ...lockpipe.Option,
) error {
	return c.Client.DoAll(ctx, keys, c.remembering(fn), opts...)
}

// Elect is Elect of lockpipe.Client. The Client extends the lease, so Lose ends it and Expire fails
// the test.
func (c *Client) Elect(ctx context.Context, key string, fn leaseFunc,
	opts ...lockpipe.Option,
) error {
	return c.Client.Elect(ctx, key, c.remembering(fn), opts...)
}

// leaseFunc is a function that runs while a lease is held.
type leaseFunc = func(ctx context.Context, lease *lockpipe.Lease) error

// remembering returns fn for a call that remembers its lease; nil for nil, which is ErrInvalid.
func (c *Client) remembering(fn leaseFunc) leaseFunc {
	if fn == nil {
		return nil
	}
	return func(ctx context.Context, l *lockpipe.Lease) error { return fn(ctx, c.remember(l)) }
}

// remember keeps a lease until it is over, and returns it.
func (c *Client) remember(l *lockpipe.Lease) *lockpipe.Lease {
	if l == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.leases) == cap(c.leases) { // seldom, however many leases a test takes
		over := func(l *lockpipe.Lease) bool { return l.Err() != nil }
		c.leases = slices.DeleteFunc(c.leases, over)
	}
	c.leases = append(c.leases, l)
	return l
}

// holding returns the leases that last and have key.
func (c *Client) holding(key string) (found []*lockpipe.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.leases {
		if l.Err() == nil && slices.Contains(l.Keys(), key) && !slices.Contains(found, l) {
			found = append(found, l)
		}
	}
	return found
}
