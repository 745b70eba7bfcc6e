package locker

import (
	"context"
	"time"
)

// TryAcquire makes one try for all keys.
func (k *Locker) TryAcquire(ctx context.Context, keys []string, o *Options) (*Lease, *Failure) {
	return k.call(ctx, o, func() (*Lease, *Failure) { return k.Try(ctx, keys, o) })
}

// call counts a call in and out, and how it ended.
func (k *Locker) call(ctx context.Context, o *Options, acquire func() (*Lease, *Failure)) (
	*Lease, *Failure,
) {
	if f := k.Begin(ctx, o.Kind, 1); f != nil {
		return nil, f
	}
	defer k.End()
	l, f := acquire()
	return l, k.Count(ctx, o.Kind, f)
}

// Try makes one try over all nodes, with a token of its own. With fencing it makes as many as the
// clock needs to catch up.
func (k *Locker) Try(ctx context.Context, keys []string, o *Options) (*Lease, *Failure) {
	var retry fenceRetry
	for {
		a := k.acquire(keys, o, &retry, len(keys))
		l, f := k.finish(ctx, &a, o, time.Time{})
		if o.Count > 0 && f.IsHeld() {
			a.cleanUp(ctx, len(keys)) // the next look must not see what it left
		}
		if f == nil || !o.Fencing || !retry.next(&a) || ctx.Err() != nil {
			return l, f
		}
	}
}
