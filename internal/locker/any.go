package locker

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// MaxAnyTries is how many attempts a call makes for any of its keys if others take keys at the same
// moment.
const MaxAnyTries = 3

// TryAcquireAny tries to take any one of the keys.
func (k *Locker) TryAcquireAny(ctx context.Context, keys []string, o *Options) (*Lease, *Failure) {
	if f := k.Begin(); f != nil {
		return nil, k.Count(o.Kind, f)
	}
	defer k.End()
	l, f := k.TryAny(ctx, keys, o, MaxAnyTries)
	return l, k.Count(o.Kind, f)
}

// TryAny tries to take one of the keys: those of one group after the other, and in each up to so
// many times if others take keys meanwhile.
func (k *Locker) TryAny(ctx context.Context, keys []string, o *Options, tries int) (*Lease,
	*Failure,
) {
	shares := k.Mux.ByPlace(keys)
	if len(shares) > 1 {
		first := rand.N(len(shares))
		shares = append(slices.Clone(shares[first:]), shares[:first]...)
	}
	var failed *Failure
	var held []string // by others
	for _, some := range shares {
		l, f := k.tryAnyHere(ctx, some, o, tries)
		switch {
		case f == nil:
			return l, nil
		case failed != nil && f.CutShort(ctx): // it says nothing new about the keys
			return nil, failed.EndedBy(ctx.Err())
		case !f.Retryable() || f.CutShort(ctx):
			return nil, f
		case f.IsHeld():
			held = append(held, some...)
			failed, f.Votes.Keys = f, held
		case failed == nil:
			failed = f
		}
	}
	return nil, failed
}

// tryAnyHere is TryAny for keys of one group.
func (k *Locker) tryAnyHere(ctx context.Context, keys []string, o *Options, tries int) (*Lease,
	*Failure,
) {
	if len(keys) == 1 {
		return k.Try(ctx, keys, o)
	}
	if f := endedBefore(ctx); f != nil {
		return nil, f
	}
	for ; ; tries-- {
		a := k.newAttempt(o, rotated(keys), 0, 0, k.Suspended())
		a.of = k.Mux.AcquireAny(a.lease.claim, o.TTL)
		l, f := k.Finish(ctx, &a, o, a.of.Wait(ctx, time.Time{}))
		if f == nil || tries == 1 || !f.Retryable() || !a.of.Split() {
			return l, f
		}
		if k.cleanUp(ctx, &a, len(keys)); ctx.Err() != nil {
			return nil, f
		}
	}
}

// rotated returns keys from a random one on, so that callers seldom want the same one first.
func rotated(keys []string) []string {
	first := rand.N(len(keys))
	return append(append(make([]string, 0, len(keys)), keys[first:]...), keys[:first]...)
}
