package lockpipe

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/multiplex"
)

// Result is the outcome of one key of TryAcquireEach. Lease is nil exactly where Err is not.
type Result struct {
	Key   string
	Lease *Lease
	Err   error
}

// TryAcquireEach is TryAcquire for many keys that have nothing to do with each other: each gets a
// lease of its own or an error of its own, together in one round trip to each node. The results are
// in the order of keys; a key given twice has one lease, which both results name. The errors are
// those of TryAcquire; those about the call as a whole stand in every result. A lease may be over
// already when the call returns, if it was short and the others took long: Lease.Err tells.
func (c *Client) TryAcquireEach(ctx context.Context, keys []string, opts ...Option) []Result {
	results := make([]Result, len(keys))
	fail := func(err error) []Result {
		c.meters.failed(callEach, err, len(unique(keys)))
		for i, k := range keys {
			results[i] = Result{Key: k, Err: err}
		}
		return results
	}
	once, o, err := c.prepare(ctx, callEach, keys, opts)
	if len(keys) == 0 {
		return nil
	}
	if err == nil && ctx.Err() != nil {
		err = errorf("%w", ctx.Err())
	}
	if err != nil {
		return fail(err)
	}
	if err := c.enter(); err != nil {
		return fail(err)
	}
	defer c.leave()
	all := make([]single, len(once))
	for i := range all {
		all[i].place = i
	}
	for some := all; len(some) > 0; {
		some = c.each(ctx, once, o, some, results)
	}
	for i := range once {
		if err := results[i].Err; err != nil {
			c.meters.failed(callEach, err, 1)
		}
	}
	if len(once) < len(keys) {
		spread(results, keys, len(once))
	}
	return results
}

// single is one key of a TryAcquireEach.
type single struct {
	place   int // among the keys, and of its result
	behind  lag
	lease   *Lease
	attempt *multiplex.Attempt
}

// each makes one attempt for each of some keys. It returns those that are worth another one at
// once, in the memory of some.
func (c *Client) each(ctx context.Context, keys []string, o call, some []single,
	results []Result,
) (again []single) {
	o.suspended = c.leases.Suspended()
	began := time.Now()
	for i := range some {
		s := &some[i]
		key := keys[s.place : s.place+1]
		s.lease = c.newLease(key, s.behind.floor, o.numbers(c.awaited(key, o)))
		s.attempt = c.mux.Acquire(s.lease.claim, o.ttl, len(some))
	}
	again = some[:0]
	var releases []*multiplex.Attempt
	for _, s := range some {
		r := &results[s.place]
		r.Key = keys[s.place]
		r.Lease, r.Err = c.granted(s.lease, s.attempt, o, s.attempt.Wait(ctx, began))
		if r.Err == nil || !o.fencing {
			continue
		}
		worth, wait := s.behind.after(s.attempt)
		if wait {
			releases = append(releases, c.mux.Release(s.lease.claim, len(some)))
		}
		if worth {
			again = append(again, s)
		}
	}
	began = time.Now()
	for _, r := range releases {
		_ = r.Wait(ctx, began) // unconfirmed, it is in the way at most
	}
	for i := range again { // all of them wait once together
		again[i].behind.waited = again[i].behind.waited || len(releases) > 0
	}
	if ctx.Err() != nil {
		return nil
	}
	return again
}

// spread gives the results of the first n, which are of different keys, to all entries of keys.
func spread(results []Result, keys []string, n int) {
	of := make(map[string]Result, n)
	for _, r := range results[:n] {
		of[r.Key] = r
	}
	for i, k := range keys {
		results[i] = of[k]
	}
}

// ReleaseAll is Release for many leases, in one round trip to each node. The error joins those of
// the leases that Release would have returned, each with its key; a nil Lease is left out.
func (c *Client) ReleaseAll(ctx context.Context, leases ...*Lease) error {
	if ctx == nil {
		return errNilContext
	}
	attempts := make([]*multiplex.Attempt, len(leases))
	errs := make([]error, len(leases))
	keys := 0
	for _, l := range leases {
		if l != nil {
			keys += l.claim.Len()
		}
	}
	for i, l := range leases {
		if l != nil {
			attempts[i], errs[i] = l.startRelease(keys)
		}
	}
	began := time.Now()
	var failed []error
	for i, a := range attempts {
		if a != nil {
			errs[i] = a.Wait(ctx, began)
			leases[i].client.meters.released(errs[i])
			leases[i].client.freed(leases[i])
		}
		if errs[i] != nil {
			failed = append(failed, errorf("%.64q: %w", leases[i].Key(), errs[i]))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return &joined{failed}
}
