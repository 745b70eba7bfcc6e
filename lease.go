package lockpipe

import (
	"context"
	"errors"
	"time"

	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Lease is the right to its keys until it ends: by Release, by Close of the client, when it is
// found lost, or when its time runs out on the local clock. All methods are safe for concurrent
// use, and do not panic on a nil Lease, which is over.
type Lease struct {
	client *Client
	term   lease.Term
	claim  *multiplex.Claim // what the nodes have; another lease's once the term was passed on
	turns  *turns           // nil unless it was handed over
}

// newLease returns a lease that is to be granted yet, with up to so many fences above floor; 0
// without fencing.
func (c *Client) newLease(keys []string, floor, fences int64) *Lease {
	f := new(struct { // one piece of memory
		lease Lease
		claim multiplex.Claim
	})
	token := c.token()
	f.claim.Init(c.cfg.Prefix, keys, string(token[:]))
	if fences > 0 {
		now := time.Now()
		first, last := c.fences.take(floor, fences)
		f.claim.Fence(now, first, last)
	}
	f.lease.client, f.lease.claim = c, &f.claim
	return &f.lease
}

// Key returns the first key, without the prefix.
func (l *Lease) Key() string {
	if l == nil {
		return ""
	}
	return l.claim.Key(0)
}

// Keys returns all keys, each once, in the order of the call, without the prefix. The slice is the
// caller's.
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

// Token returns the value of the keys on the nodes, which no other lease has at the same time: one
// that was handed over within the process keeps it.
func (l *Lease) Token() string {
	if l == nil {
		return ""
	}
	return l.claim.Token()
}

// Until returns when the lease ends if it is not extended, with the reading of the monotonic clock,
// or the zero time when it is over. Later calls return an earlier time if the machine was
// suspended.
func (l *Lease) Until() time.Time {
	if l == nil {
		return time.Time{}
	}
	return l.term.Until()
}

// Err returns nil while the lease lasts, and then how it ended: ErrReleased, ErrExpired, ErrLost or
// ErrClosed. It looks at the clock. So it is also right after the process was stopped, and on
// Linux, macOS and Windows after the machine was suspended. docs/guarantees.md names the
// exceptions.
func (l *Lease) Err() error {
	if l == nil {
		return ErrReleased
	}
	return l.term.Err()
}

// Context returns a context that is cancelled when the lease ends, whatever the network does;
// context.Cause tells how, as Err does. Work that must not go on without the lock runs under it. It
// comes from no other context: that of the call that acquired the lease neither ends it nor gives
// it values.
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

// Release gives the keys back: on every node that may hold the lease's token, and only where it
// does. It returns nil when a quorum of nodes is known not to hold it any more, also if it was
// released before. ErrExpired, ErrLost or ErrClosed: the lease was over already, and another may
// hold the keys; returned at once. ErrNoQuorum, or ctx's error: not confirmed yet; it goes on in
// the background, and Release may be called again to wait for it. The lease is over in every case.
func (l *Lease) Release(ctx context.Context) error {
	switch {
	case l == nil:
		return nil
	case ctx == nil:
		return errNilContext
	}
	a, err := l.startRelease(l.claim.Len())
	if a == nil {
		return err
	}
	err = a.Wait(ctx, time.Time{})
	l.client.meters.released(err)
	l.client.freed(l)
	return err
}

// startRelease ends the term and sends the release, together with that of so many keys. Without an
// attempt there is nothing to wait for: it was handed over, or was over.
func (l *Lease) startRelease(keys int) (*multiplex.Attempt, error) {
	// Close waits for what is counted here, so that it does not shut the nodes before the release
	// is on its way.
	l.client.calls.Add(1)
	defer l.client.leave()
	if l.client.handOver(l) {
		l.client.meters.releases[outcomeHandedOver].Add(1)
		return nil, nil
	}
	end := l.term.End(ErrReleased)
	if l.term.Passed() { // by another Release at the same time
		l.client.meters.releases[outcomeHandedOver].Add(1)
		return nil, nil
	}
	a := l.client.mux.Release(l.claim, keys)
	if !errors.Is(end, ErrReleased) {
		l.client.meters.releases[outcomeAlreadyEnded].Add(1)
		return nil, end
	}
	return a, nil
}

// letGo deletes what the nodes have of the lease, in the background.
func (l *Lease) letGo() {
	if l.term.Passed() {
		return
	}
	l.client.mux.Release(l.claim, l.claim.Len())
	l.client.freed(l)
}
