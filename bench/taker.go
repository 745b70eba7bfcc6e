package bench

import (
	"context"
	"errors"
	"time"

	"github.com/lockpipe/lockpipe"
)

// taker is one caller's way to take keys and give them back. A scenario is a taker; tests have
// others. It is owned by one worker.
type taker interface {
	// take asks for the keys in one call and answers for all of them, in order. The answer is valid
	// until the next take.
	take(ctx context.Context, names []string) []grant
	// give releases what the last take was granted, in one call, and sets err of each of those
	// grants to how it ended: nil is released. After an ErrNoQuorum it may be called again, to
	// learn of a release that was confirmed since.
	give(ctx context.Context)
}

// grant is the answer for the next keys of a call.
type grant struct {
	keys  int // how many of the call's keys it is about
	held  bool
	until time.Time // end of validity, where held; give moves it on to what extensions made of it
	fence int64     // where held with fencing
	err   error     // why not held; after give: how it ended
}

// catchUp notes the end of validity that extensions have given the lease. One that is over keeps
// the last that was noted.
func (g *grant) catchUp(lease *lockpipe.Lease) {
	if until := lease.Until(); !until.IsZero() {
		g.until = until
	}
}

// newTaker returns a caller of one of the scenarios but Hold.
func newTaker(cfg Config, client *lockpipe.Client) taker {
	options, extends := cfg.options(), cfg.AutoExtend > 0
	switch cfg.Scenario {
	case Each:
		return &eachTaker{client: client, options: options, extends: extends}
	case Batch:
		return &wholeTaker{extends: extends, acquire: func(ctx context.Context,
			names []string,
		) (*lockpipe.Lease, error) {
			return client.AcquireAll(ctx, names, options...)
		}}
	case Hot:
		return &wholeTaker{extends: extends, acquire: func(ctx context.Context,
			names []string,
		) (*lockpipe.Lease, error) {
			return client.Acquire(ctx, names[0], options...)
		}}
	default:
		return &wholeTaker{extends: extends, acquire: func(ctx context.Context,
			names []string,
		) (*lockpipe.Lease, error) {
			return client.TryAcquire(ctx, names[0], options...)
		}}
	}
}

// wholeTaker takes all keys of a call as one lease.
type wholeTaker struct {
	acquire func(ctx context.Context, names []string) (*lockpipe.Lease, error)
	extends bool            // whether the Client extends the leases by itself
	lease   *lockpipe.Lease // of the last take; nil where it failed
	answer  [1]grant
}

func (t *wholeTaker) take(ctx context.Context, names []string) []grant {
	lease, err := t.acquire(ctx, names)
	t.lease, t.answer[0] = lease, grant{keys: len(names), err: err}
	if err == nil {
		t.answer[0].held, t.answer[0].until, t.answer[0].fence = true, lease.Until(), lease.Fence()
	}
	return t.answer[:]
}

func (t *wholeTaker) give(ctx context.Context) {
	if t.answer[0].held {
		if t.extends {
			t.answer[0].catchUp(t.lease)
		}
		t.answer[0].err = t.lease.Release(ctx)
	}
}

// eachTaker takes each key of a call as a lease of its own.
type eachTaker struct {
	client  *lockpipe.Client
	options []lockpipe.Option
	extends bool              // whether the Client extends the leases by itself
	leases  []*lockpipe.Lease // one for each grant; nil where it is not held
	held    []*lockpipe.Lease // those that are not nil
	answer  []grant
}

func (t *eachTaker) take(ctx context.Context, names []string) []grant {
	t.leases, t.held, t.answer = t.leases[:0], t.held[:0], t.answer[:0]
	for _, r := range t.client.TryAcquireEach(ctx, names, t.options...) {
		g := grant{keys: 1, err: r.Err}
		if r.Err == nil {
			g.held, g.until, g.fence = true, r.Lease.Until(), r.Lease.Fence()
			t.held = append(t.held, r.Lease)
		}
		t.leases = append(t.leases, r.Lease)
		t.answer = append(t.answer, g)
	}
	return t.answer
}

func (t *eachTaker) give(ctx context.Context) {
	if t.extends {
		for i, lease := range t.leases {
			t.answer[i].catchUp(lease)
		}
	}
	err := t.client.ReleaseAll(ctx, t.held...)
	unknown := unlessOver(err)
	for i, lease := range t.leases {
		if !t.answer[i].held {
			continue
		}
		t.answer[i].err = unknown
		if err == nil {
			continue
		}
		if end := lease.Err(); isOver(end) {
			t.answer[i].err = end
		}
	}
}

// isOver tells that a lease had ended before its release.
func isOver(err error) bool {
	return errors.Is(err, lockpipe.ErrExpired) || errors.Is(err, lockpipe.ErrLost)
}

// unlessOver returns the first of the joined errors that says something else than that a lease was
// over. ReleaseAll does not tell which lease an error is about in a form for programs, so it is
// taken for all that were not over.
func unlessOver(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	for _, one := range joined.Unwrap() {
		if !isOver(one) {
			return one
		}
	}
	return nil
}
