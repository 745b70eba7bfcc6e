package lockpipe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Lease is the right to its keys until it ends: by Release, by Close of the client, when it is found lost, or when its time runs
// out on the local clock. All methods are safe for concurrent use, and do not panic on a nil Lease, which is over.
type Lease struct {
	client *Client
	term   lease.Term
	claim  multiplex.Claim
	extend turn
}

func (c *Client) newLease(keys []string) *Lease {
	l := &Lease{client: c}
	l.claim.Init(c.cfg.Prefix, keys, c.token())
	return l
}

// Key returns the first key, without the prefix.
func (l *Lease) Key() string {
	if l == nil {
		return ""
	}
	return l.claim.Key(0)
}

// Keys returns all keys, each once, in the order of the call, without the prefix. The slice is the caller's.
func (l *Lease) Keys() []string {
	if l == nil {
		return nil
	}
	keys := make([]string, l.claim.Len())
	for i := range keys {
		keys[i] = l.claim.Key(i)
	}
	return keys
}

// Token returns the value of the keys on the nodes, which no other lease ever has.
func (l *Lease) Token() string {
	if l == nil {
		return ""
	}
	return l.claim.Token()
}

// Until returns when the lease ends if it is not extended, with the reading of the monotonic clock, or the zero time when it is over.
func (l *Lease) Until() time.Time {
	if l == nil {
		return time.Time{}
	}
	return l.term.Until()
}

// Err returns nil while the lease lasts, and then how it ended: ErrReleased, ErrExpired, ErrLost or ErrClosed. It goes
// by the clock, so it is right even if the process was stopped.
func (l *Lease) Err() error {
	if l == nil {
		return ErrReleased
	}
	return l.term.Err()
}

// Context returns a context that is cancelled when the lease ends, whatever the network does; context.Cause tells how, as Err
// does. Work that must not go on without the lock runs under it.
func (l *Lease) Context() context.Context {
	if l == nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(ErrReleased)
		return ctx
	}
	return l.term.Context()
}

// Done returns the channel of Context, which is closed when the lease ends.
func (l *Lease) Done() <-chan struct{} { return l.Context().Done() }

// Extend lets the lease end ttl from now, later or earlier than it would have. Nodes that lost the keys, or never had them,
// are given them again, but do not count this time. Concurrent calls on one lease go one after another. With nil the lease is valid until
// Until. ErrNoQuorum: not confirmed, the lease is valid until Until, which a shorter ttl may have brought nearer; try
// again. ErrLost: a quorum has not got the lease any more, and it is over. ErrExpired, ErrReleased, ErrClosed: it was
// over before. ErrInvalid: ttl is below 10 ms or above Config.MaxTTL. Where ctx ended first, its error is found too.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	if l == nil {
		return ErrReleased
	}
	if err := l.client.checkTTL("Extend", ttl); err != nil {
		return err
	}
	if err := l.extend.take(ctx, l.term.Context); err != nil {
		return l.over(err)
	}
	defer l.extend.give()
	if err := ctx.Err(); err != nil {
		return err
	}
	ttl = ttl.Truncate(time.Millisecond)
	// A shorter time may take effect without an answer, so it counts from before it is sent.
	until := l.term.Until()
	if until.IsZero() {
		return l.term.Err()
	}
	l.client.leases.Shorten(&l.term, validUntil(time.Now(), ttl))
	a := l.client.mux.Extend(&l.claim, ttl, time.Until(until))
	err := a.Wait(ctx, time.Time{})
	if err == nil {
		err = l.term.Extend(validUntil(a.Sent(), ttl))
	}
	return l.extended(err)
}

// extended is what the outcome of an extension means for the lease.
func (l *Lease) extended(err error) error {
	var held *HeldError
	if errors.As(err, &held) {
		if end := l.term.End(ErrLost); end != ErrLost {
			return end
		}
		l.letGo()
		return fmt.Errorf("%w: %w", ErrLost, &goneError{held})
	}
	return l.over(err)
}

// over returns how the lease ended instead of err, if it has: and lets go of what an extension may have left.
func (l *Lease) over(err error) error {
	end := l.term.Err()
	if err == nil || end == nil {
		return err
	}
	l.letGo()
	return end
}

// goneError says how many nodes have the lease no more, without being an ErrHeld: the caller's attempt was to keep it.
type goneError struct{ held *HeldError }

func (e *goneError) Error() string {
	return fmt.Sprintf("%d nodes do not hold it any more: %v", len(e.held.Nodes), e.held.Nodes)
}

// Release gives the keys back: on every node that may hold the lease's token, and only where it does. It returns nil when a
// quorum of nodes is known not to hold it any more, also if it was released before. ErrExpired or ErrLost: the lease was
// over already, and another may hold the keys; returned at once. ErrNoQuorum, or ctx's error: not confirmed yet; it goes on in
// the background, and Release may be called again to wait for it. The lease is over in every case.
func (l *Lease) Release(ctx context.Context) error {
	if l == nil {
		return nil
	}
	a, err := l.startRelease(l.claim.Len())
	if err != nil {
		return err
	}
	return a.Wait(ctx, time.Time{})
}

// startRelease ends the term and sends the release, together with that of so many keys.
func (l *Lease) startRelease(keys int) (*multiplex.Attempt, error) {
	// Close waits for what is counted here, so that it does not shut the nodes before the release is on its way.
	l.client.calls.Add(1)
	defer l.client.leave()
	end := l.term.End(ErrReleased)
	l.client.leases.Forget(&l.term)
	a := l.client.mux.Release(&l.claim, keys)
	if end != ErrReleased {
		return nil, end
	}
	return a, nil
}

// letGo deletes what the nodes have of the lease, in the background.
func (l *Lease) letGo() {
	l.client.leases.Forget(&l.term)
	l.client.mux.Release(&l.claim, l.claim.Len())
}

// expired is told by the manager some time after the lease ran out.
func (l *Lease) expired() {
	if l.claim.Unsettled() {
		l.letGo()
	}
}
