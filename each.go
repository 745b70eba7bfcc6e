package lockpipe

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/outcomes"
	"github.com/lockpipe/lockpipe/internal/parts"
)

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
// and the others take long, it may be over when the call returns: see Lease.Err.
func (c *Client) TryAcquireEach(ctx context.Context, keys []string, opts ...Option) []Result {
	results := make([]Result, len(keys))
	fail := func(err error) []Result {
		c.outcomes.failed(outcomes.Each, err, len(dedup(keys)))
		for i, k := range keys {
			results[i] = Result{Key: k, Err: err}
		}
		return results
	}
	once, o, err := c.validateCall(ctx, outcomes.Each, keys, opts)
	if len(keys) == 0 {
		return nil
	}
	if err == nil && ctx.Err() != nil {
		err = errorf("%w", ctx.Err())
	}
	if err != nil {
		return fail(err)
	}
	if err := c.beginCall(); err != nil {
		return fail(err)
	}
	defer c.endCall()
	all := make([]eachKey, len(once))
	for i := range all {
		all[i].index = i
	}
	for some := all; len(some) > 0; {
		some = c.tryEach(ctx, once, o, some, results)
	}
	for i := range once {
		if err := results[i].Err; err != nil {
			c.outcomes.failed(outcomes.Each, err, 1)
		}
	}
	if len(once) < len(keys) {
		fanOutResults(results, keys, len(once))
	}
	return results
}

// eachKey is one key of a TryAcquireEach.
type eachKey struct {
	index      int // of the key, and of its result
	fenceRetry fenceRetry
	lease      *Lease
	attempt    parts.Attempt
}

// tryEach makes one attempt for each of some keys. It returns those for which to make another one
// at once, in the memory of some.
func (c *Client) tryEach(ctx context.Context, keys []string, o callOptions, some []eachKey,
	results []Result,
) (again []eachKey) {
	o.suspended = c.suspended()
	began := time.Now()
	for i := range some {
		s := &some[i]
		key := keys[s.index : s.index+1]
		s.lease = c.newLease(key, s.fenceRetry.floor, o.fencesWanted(c.hasWaiters(key, o)))
		s.attempt = c.mux.Acquire(s.lease.claim, o.ttl, len(some))
	}
	again = some[:0]
	var releases []parts.Attempt
	for _, s := range some {
		r := &results[s.index]
		r.Key = keys[s.index]
		outcome := attemptError(s.attempt.Wait(ctx, began))
		r.Lease, r.Err = c.finishAttempt(s.lease, s.attempt, o, outcome)
		if r.Err == nil || !o.fencing {
			continue
		}
		retry, cleanUp := s.fenceRetry.next(s.attempt)
		if cleanUp {
			releases = append(releases, c.mux.Release(s.lease.claim, len(some)))
		}
		if retry {
			again = append(again, s)
		}
	}
	began = time.Now()
	for _, r := range releases {
		_ = r.Wait(ctx, began) // if it is not confirmed, at worst the next attempt is refused
	}
	for i := range again { // all of them have waited for all releases
		again[i].fenceRetry.cleanedUp = again[i].fenceRetry.cleanedUp || len(releases) > 0
	}
	if ctx.Err() != nil {
		return nil
	}
	return again
}

// fanOutResults gives all entries of keys the results of the first n, which are of different keys.
func fanOutResults(results []Result, keys []string, n int) {
	of := make(map[string]Result, n)
	for _, r := range results[:n] {
		of[r.Key] = r
	}
	for i, k := range keys {
		results[i] = of[k]
	}
}
