package locker

import (
	"context"
)

// Each is one key of a TryEach: it has a lease or a failure.
type Each struct {
	Lease   *Lease
	Failure *Failure

	attempt attempt
	retry   fenceRetry
	decided bool
}

// TryEach tries each of the keys by itself, all in one round trip. No key is there twice. The
// results are in the order of keys. A failure without results is that of every key.
func (k *Locker) TryEach(ctx context.Context, keys []string, o *Options) ([]Each, *Failure) {
	if f := k.Begin(ctx, o.Kind, len(keys)); f != nil {
		return nil, f
	}
	defer k.End()
	all := make([]Each, len(keys))
	for left := len(all); left > 0; {
		left = k.tryEach(ctx, keys, o, all, left)
	}
	for i := range all {
		k.Count(ctx, o.Kind, all[i].Failure)
	}
	return all, nil
}

// tryEach makes one attempt for each of the keys that are not decided, of which so many are left.
// It returns for how many to make another one at once.
func (k *Locker) tryEach(ctx context.Context, keys []string, o *Options, all []Each, left int) (
	again int,
) {
	for i := range all {
		if e, key := &all[i], keys[i:i+1]; !e.decided {
			e.attempt = k.acquire(key, o, &e.retry, left)
		}
	}
	for i := range all {
		e := &all[i]
		if e.decided {
			continue
		}
		e.Lease, e.Failure = k.finish(ctx, &e.attempt, o)
		e.decided = e.Failure == nil || !o.Fencing || !e.retry.next(&e.attempt)
		if !e.decided {
			again++
		}
	}
	if ctx.Err() != nil {
		return 0
	}
	return again
}
