package locker

import (
	"context"

	"github.com/lockpipe/lockpipe/multiplex"
)

// TryAcquire makes one try for all keys.
func (k *Locker) TryAcquire(ctx context.Context, keys []string, o *Options) (*Lease, *Failure) {
	if f := k.Begin(); f != nil {
		return nil, k.Count(o.Kind, f)
	}
	defer k.End()
	l, f := k.Try(ctx, keys, o)
	return l, k.Count(o.Kind, f)
}

// Try makes one try over all nodes, with a token of its own. With fencing it makes as many as the
// clock needs to catch up.
func (k *Locker) Try(ctx context.Context, keys []string, o *Options) (*Lease, *Failure) {
	if f := endedBefore(ctx); f != nil {
		return nil, f
	}
	var t Try
	l, _, f := t.Advance(ctx, k, keys, o, nil)
	return l, f
}

// Try is what Locker.Try makes. The zero value is ready.
type Try struct {
	attempt Attempt
	retry   FenceRetry
}

// IsPending reports whether the try is under way.
func (t *Try) IsPending() bool { return t.attempt.IsPending() }

// Advance makes the try, and reports whether it is decided. With a waker it does not block, and
// goes on with the try when it is called again.
func (t *Try) Advance(ctx context.Context, k *Locker, keys []string, o *Options,
	w *multiplex.Waker,
) (held *Lease, decided bool, f *Failure) {
	for {
		if !t.attempt.IsPending() {
			t.attempt = k.Acquire(keys, o, &t.retry, k.hasWaiters(keys, o), len(keys))
		}
		votes, decided := t.attempt.Votes(ctx, w)
		if !decided {
			return nil, false, nil
		}
		a := t.attempt
		t.attempt = Attempt{}
		held, f = k.Finish(&a, o, votes)
		if f == nil || !o.Fencing {
			return held, true, f
		}
		again, cleanUp := t.retry.Next(&a)
		if cleanUp && w == nil {
			k.cleanUp(ctx, &a, len(keys))
		}
		if !again || cleanUp && w != nil || ctx.Err() != nil {
			return nil, true, f
		}
	}
}
