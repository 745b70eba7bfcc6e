package bench

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/errorkinds"
)

// locker is how one caller takes and releases keys. Each scenario but Hold has one; tests have
// others. It is owned by one worker.
type locker interface {
	// lock asks for the keys in one call and returns results for all of them, in order. They are
	// valid until the next lock.
	lock(ctx context.Context, names []string) []result
	// unlock releases in one call what the last lock was granted, and sets err of each of these
	// results to how it ended: nil is released. After an ErrNoQuorum it may be called again, to
	// see a release that was confirmed since.
	unlock(ctx context.Context)
}

// result is what became of the next keys of a call.
type result struct {
	keys  int // how many of the call's keys it is about
	held  bool
	until time.Time // if held: the end of validity; unlock sets the one after all extensions
	fence int64     // if held with fencing
	err   error     // why not held; after unlock: how it ended
}

// resultOf returns what became of so many keys, which were granted as one lease or not at all.
func resultOf(keys int, lease *lockpipe.Lease, err error) result {
	if err != nil {
		return result{keys: keys, err: err}
	}
	return result{keys: keys, held: true, until: lease.Until(), fence: lease.Fence()}
}

// updateUntil notes the end of validity after all extensions. A lease that has ended keeps the last
// one that was noted.
func (r *result) updateUntil(lease *lockpipe.Lease) {
	if until := lease.Until(); !until.IsZero() {
		r.until = until
	}
}

// newLocker returns a caller of one of the scenarios but Hold.
func newLocker(cfg Config, client *lockpipe.Client) locker {
	options, extends := cfg.options(), cfg.AutoExtend > 0
	acquire := func(ctx context.Context, names []string) (*lockpipe.Lease, error) {
		return client.TryAcquire(ctx, names[0], options...)
	}
	switch cfg.Scenario {
	case Each:
		return &eachLocker{client: client, options: options, extends: extends}
	case Batch, Cart:
		acquire = func(ctx context.Context, names []string) (*lockpipe.Lease, error) {
			return client.AcquireAll(ctx, names, options...)
		}
	case Hot:
		acquire = func(ctx context.Context, names []string) (*lockpipe.Lease, error) {
			return client.Acquire(ctx, names[0], options...)
		}
	}
	return &wholeLocker{extends: extends, acquire: acquire}
}

// wholeLocker takes all keys of a call as one lease.
type wholeLocker struct {
	acquire func(ctx context.Context, names []string) (*lockpipe.Lease, error)
	extends bool            // whether the Client extends the leases automatically
	lease   *lockpipe.Lease // of the last lock; nil if it failed
	results [1]result
}

func (l *wholeLocker) lock(ctx context.Context, names []string) []result {
	lease, err := l.acquire(ctx, names)
	l.lease, l.results[0] = lease, resultOf(len(names), lease, err)
	return l.results[:]
}

func (l *wholeLocker) unlock(ctx context.Context) {
	if l.results[0].held {
		if l.extends {
			l.results[0].updateUntil(l.lease)
		}
		l.results[0].err = l.lease.Release(ctx)
	}
}

// eachLocker takes each key of a call as a lease of its own.
type eachLocker struct {
	client  *lockpipe.Client
	options []lockpipe.Option
	extends bool              // whether the Client extends the leases automatically
	leases  []*lockpipe.Lease // one for each result; nil if it is not held
	held    []*lockpipe.Lease // those that are not nil
	results []result
}

func (l *eachLocker) lock(ctx context.Context, names []string) []result {
	l.leases, l.held, l.results = l.leases[:0], l.held[:0], l.results[:0]
	for _, r := range l.client.TryAcquireEach(ctx, names, l.options...) {
		if r.Err == nil {
			l.held = append(l.held, r.Lease)
		}
		l.leases = append(l.leases, r.Lease)
		l.results = append(l.results, resultOf(1, r.Lease, r.Err))
	}
	return l.results
}

func (l *eachLocker) unlock(ctx context.Context) {
	if l.extends {
		for i, lease := range l.leases {
			l.results[i].updateUntil(lease)
		}
	}
	other := errorkinds.OtherThanEnded(l.client.ReleaseAll(ctx, l.held...))
	for i, lease := range l.leases {
		if l.results[i].held {
			l.results[i].err = endOf(lease, other)
		}
	}
}

// endOf returns how a lease ended that ReleaseAll was called for: why it had ended before, else
// other, what errorkinds.OtherThanEnded returned.
func endOf(lease *lockpipe.Lease, other error) error {
	if end := lease.Err(); errorkinds.SaysEnded(end) {
		return end
	}
	return other
}
