package locker

import "context"

// Each is one key of a TryEach: it has a lease or a failure.
type Each struct {
	Lease   *Lease
	Failure *Failure

	attempt attempt
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
	for i := range all {
		k.acquire(&all[i].attempt, keys[i:i+1], o, len(all))
	}
	for again := true; again; {
		again = false
		for i := range all {
			e := &all[i]
			if e.decided {
				continue
			}
			e.Lease, e.Failure = k.finish(ctx, &e.attempt, o)
			e.decided = e.Failure == nil || !o.Fencing || !e.attempt.mayRaiseFence() ||
				ctx.Err() != nil
			if !e.decided { // all of these are under way together
				k.acquire(&e.attempt, keys[i:i+1], o, len(all))
				again = true
			}
		}
	}
	for i := range all {
		k.Count(ctx, o.Kind, all[i].Failure)
	}
	return all, nil
}
