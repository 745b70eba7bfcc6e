package lockpipe

import (
	"context"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/stats"
)

// TryAcquire takes key, if nobody holds it, in one attempt of one round trip. It never waits for a
// holder. The error is ErrHeld, ErrNoQuorum, ErrOverloaded, ErrClosed or ErrInvalid. If ctx ended
// first, errors.Is finds its error too, or only that. After any error nothing is held.
func (c *Client) TryAcquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	keys := [1]string{key}
	return c.TryAcquireAll(ctx, keys[:], opts...)
}

// TryAcquireAll is TryAcquire for many keys: all of them under one lease, or none. A key given
// twice counts once.
func (c *Client) TryAcquireAll(ctx context.Context, keys []string, opts ...Option) (*Lease, error) {
	keys, o, err := c.validateCall(ctx, stats.Try, keys, opts)
	if err != nil {
		return nil, c.countInvalid(stats.Try, err, 1)
	}
	return result(c.locker.TryAcquire(ctx, keys, &o))
}

// Acquire takes key. It waits while another holds the key or no quorum can be reached, until ctx
// ends. Then errors.Is finds ctx's error, and the reason of the last attempt: ErrHeld or
// ErrNoQuorum. If other processes wait for the key, the first attempt comes in the turn of this
// process. If ctx ends before that and no holder is known, errors.Is finds only ctx's error.
// ErrOverloaded, ErrClosed and ErrInvalid come at once. After any error nothing is held. While too
// few nodes are connected for a quorum, a waiting call makes one attempt and then waits for the
// nodes. When they are back, such calls try in the order of arrival.
func (c *Client) Acquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	keys := [1]string{key}
	return c.acquire(ctx, keys[:], opts, false)
}

// AcquireAll is Acquire for many keys: all of them under one lease, or none. While it waits it
// holds none of them, so calls whose keys overlap do not block each other forever. A key given
// twice counts once.
func (c *Client) AcquireAll(ctx context.Context, keys []string, opts ...Option) (*Lease, error) {
	return c.acquire(ctx, keys, opts, false)
}

// Result is the outcome of one key of TryAcquireEach. Lease is nil exactly if Err is not.
type Result struct {
	Key   string
	Lease *Lease
	Err   error
}

// TryAcquireEach is TryAcquire for many keys that have nothing to do with each other. Each gets a
// lease of its own or an error of its own, together in one round trip to each node. The results are
// in the order of keys. A key given twice has one lease, which both results name. The errors are
// those of TryAcquire. An error about the call as a whole is in every result. If a lease is short
// and other keys take long, it may be over when the call returns: see Lease.Err.
func (c *Client) TryAcquireEach(ctx context.Context, keys []string, opts ...Option) []Result {
	if len(keys) == 0 {
		return nil
	}
	results := make([]Result, len(keys))
	fail := func(err error) []Result {
		for i, k := range keys {
			results[i] = Result{Key: k, Err: err}
		}
		return results
	}
	once, o, err := c.validateCall(ctx, stats.Each, keys, opts)
	if err != nil {
		return fail(c.countInvalid(stats.Each, err, len(ids.Distinct(keys))))
	}
	all, f := c.locker.TryEach(ctx, once, &o)
	if f != nil {
		return fail(failureError(f))
	}
	for i := range all {
		results[i].Key = once[i]
		results[i].Lease, results[i].Err = result(all[i].Lease, all[i].Failure)
	}
	if n := len(once); n < len(keys) {
		of := make(map[string]Result, n)
		for _, r := range results[:n] {
			of[r.Key] = r
		}
		for i, k := range keys {
			results[i] = of[k]
		}
	}
	return results
}

// acquire is AcquireAll. hasFunction: it is for Do, DoAll or Elect.
func (c *Client) acquire(ctx context.Context, keys []string, opts []Option, hasFunction bool) (
	*Lease, error,
) {
	keys, o, err := c.validateCall(ctx, stats.Wait, keys, opts)
	if err != nil {
		return nil, c.countInvalid(stats.Wait, err, 1)
	}
	o.HasFunction = hasFunction
	return result(c.calls.Acquire(ctx, keys, &o))
}

// result returns what a call has come to, as the user gets it.
func result(l *locker.Lease, f *locker.Failure) (*Lease, error) {
	if f != nil {
		return nil, failureError(f)
	}
	return (*Lease)(l), nil
}

// countInvalid counts calls whose arguments make no sense, and returns err.
func (c *Client) countInvalid(kind stats.Call, err error, calls int) error {
	c.locker.Outcomes.Failures[kind][stats.Invalid].Add(uint64(calls))
	return err
}
