package lockpipe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockpipe/lockpipe/multiplex"
)

// Result is the outcome of one key of TryAcquireEach. Lease is nil exactly where Err is not.
type Result struct {
	Key   string
	Lease *Lease
	Err   error
}

// TryAcquireEach is TryAcquire for many keys that have nothing to do with each other: each gets a lease of its own or an
// error of its own, together in one round trip to each node. The results are in the order of keys; a key given twice
// has one lease, which both results name. The errors are those of TryAcquire; those about the call as a whole stand in every result.
// A lease may be over already when the call returns, if it was short and the others took long: Lease.Err tells.
func (c *Client) TryAcquireEach(ctx context.Context, keys []string, opts ...Option) []Result {
	results := make([]Result, len(keys))
	fail := func(err error) []Result {
		for i, k := range keys {
			results[i] = Result{Key: k, Err: err}
		}
		return results
	}
	once, o, err := c.prepare(keys, opts)
	if len(keys) == 0 {
		return nil
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fail(err)
	}
	if err := c.enter(); err != nil {
		return fail(err)
	}
	defer c.leave()
	behind := c.each(ctx, once, o, results)
	for stale := 0; len(behind) > 0 && stale < maxCatchUps; stale++ {
		behind = c.eachAgain(ctx, behind, o, results)
	}
	if len(once) < len(keys) {
		spread(results, keys, len(once))
	}
	return results
}

// each makes one attempt for each key. It returns the places of those that are worth another one at once.
func (c *Client) each(ctx context.Context, keys []string, o call, results []Result) (behind []int) {
	leases := make([]*Lease, len(keys))
	attempts := make([]*multiplex.Attempt, len(keys))
	began := time.Now()
	for i := range keys {
		key := keys[i : i+1]
		leases[i] = c.newLease(key, o.numbers(c.awaited(key, o)))
		attempts[i] = c.mux.Acquire(leases[i].claim, o.ttl, len(keys))
	}
	for i, k := range keys {
		results[i].Key = k
		results[i].Lease, results[i].Err = c.granted(leases[i], attempts[i], o, attempts[i].Wait(ctx, began))
		if results[i].Err != nil && o.fencing && c.catchUp(ctx, leases[i], attempts[i]) {
			behind = append(behind, i)
		}
	}
	return behind
}

// eachAgain is each for some of the results, by their places.
func (c *Client) eachAgain(ctx context.Context, some []int, o call, results []Result) (behind []int) {
	keys := make([]string, len(some))
	for i, place := range some {
		keys[i] = results[place].Key
	}
	news := make([]Result, len(some))
	for _, i := range c.each(ctx, keys, o, news) {
		behind = append(behind, some[i])
	}
	for i, place := range some {
		results[place] = news[i]
	}
	return behind
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

// ReleaseAll is Release for many leases, in one round trip to each node. The error joins those of the leases that
// Release would have returned, each with its key; a nil Lease is left out.
func (c *Client) ReleaseAll(ctx context.Context, leases ...*Lease) error {
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
			leases[i].client.freed(leases[i])
		}
		if errs[i] != nil {
			failed = append(failed, fmt.Errorf("%.64q: %w", leases[i].Key(), errs[i]))
		}
	}
	return errors.Join(failed...)
}
