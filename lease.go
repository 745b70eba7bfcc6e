package lockpipe

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/prefix"
)

// Lease is the right to its keys until it ends: by Release or Keep, by Close of the client, when an
// extension finds it lost, or when its time runs out on the local clock. All methods are safe for
// concurrent use. A nil or zero Lease holds nothing, and its methods report ErrReleased.
type Lease locker.Lease

// inner returns the lease of package locker that l is.
func (l *Lease) inner() *locker.Lease { return (*locker.Lease)(l) }

// of returns what get says of the lease; the zero value for a lease that IsZero.
func of[T any](l *Lease, get func(*locker.Lease) T) (value T) {
	if !l.inner().IsZero() {
		value = get(l.inner())
	}
	return value
}

// Key returns the first key, without the prefix.
func (l *Lease) Key() string { return of(l, (*locker.Lease).Key) }

// Keys returns all keys, each once, in the order of the call, without the prefix. The slice is the
// caller's.
func (l *Lease) Keys() []string { return of(l, (*locker.Lease).Keys) }

// Token returns what the value of the keys begins with on the nodes: 27 random characters, and
// behind them an @ and Config.Owner, unless that is NoOwner. The value has one more character,
// which says which node it is. No other lease has the token at the same time. If the lease is
// handed off within the process, the next holder's lease has the same token.
func (l *Lease) Token() string { return of(l, (*locker.Lease).Token) }

// Fence returns the number of a lease that was taken with WithFencing, also when it is over. It
// returns 0 for any other lease.
func (l *Lease) Fence() int64 { return of(l, (*locker.Lease).Fence) }

// Until returns when the lease ends unless it is extended. The time has a monotonic clock reading.
// Until returns the zero time when the lease is over. If the machine was suspended, later calls
// return an earlier time.
func (l *Lease) Until() time.Time { return of(l, (*locker.Lease).Until) }

// Err returns nil while the lease lasts, and then how it ended: errors.Is finds ErrReleased,
// ErrKept, ErrExpired, ErrLost or ErrClosed. If the lease expired or was lost, the text says which
// lease that was, and when. Err reads the clock. So it is correct after the process was stopped
// too, and on Linux, macOS and Windows after the machine was suspended. docs/guarantees.md names
// the exceptions.
func (l *Lease) Err() error {
	if l.inner().IsZero() {
		return ErrReleased
	}
	return l.inner().Err()
}

// Context returns a context that is cancelled when the lease ends, whatever the network does.
// context.Cause returns how it ended, as Err does. Run work under it that must stop without the
// lock. It comes from no other context: the context of the acquiring call neither ends it nor gives
// it values.
func (l *Lease) Context() context.Context {
	if l.inner().IsZero() {
		return cancelled(context.Background(), ErrReleased)
	}
	return l.inner().Context()
}

// Done returns the channel of Context, which is closed when the lease ends.
func (l *Lease) Done() <-chan struct{} { return l.Context().Done() }

// Bind returns a context with the values and the deadline of ctx, which is cancelled when ctx or
// the lease ends. context.Cause returns the cause of the one that ended first: that of ctx, or how
// the lease ended, as Lease.Err does. Run work for a request under it that must stop without the
// lock. Like Context, it reads the clock when its Err is called.
//
// There is nothing to cancel: the first of the two ends frees what Bind made. It takes no
// goroutine, unless the type of ctx is not one of package context. If you bind often while one
// lease lasts, give Bind contexts that end. If ctx is nil, the returned context is over, and its
// cause is ErrInvalid.
func (l *Lease) Bind(ctx context.Context) context.Context {
	if ctx == nil {
		return cancelled(context.Background(), errNilContext)
	}
	bound, unbind := l.bind(ctx)
	context.AfterFunc(bound, unbind) // else it would take memory until the lease ends
	return bound
}

// bind returns the context of Bind. unbind ends it, and frees what the lease's context has of it.
func (l *Lease) bind(ctx context.Context) (bound context.Context, unbind func()) {
	if l.inner().IsZero() {
		return cancelled(ctx, ErrReleased), func() {}
	}
	return l.inner().Bind(ctx)
}

// cancelled returns a context of parent that is over.
func cancelled(parent context.Context, cause error) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	cancel(cause)
	return ctx
}

// Release ends the lease. If another call of this Client waits for the same keys, Release may hand
// the lease to that call: it sends nothing and returns nil. Otherwise Release deletes each key on
// every node that may hold the lease's token, if the key still holds it. It returns nil when a
// quorum of nodes is known not to hold the token any more, also if the lease was released before.
// After Keep it does nothing and returns nil. If the lease had ended otherwise, Release returns
// ErrExpired, ErrLost or ErrClosed at once: another may hold the keys. ErrLost also comes if no
// quorum of nodes had the keys any more: somebody deleted or overwrote them. Release is nil if its
// own earlier try may have deleted them, or if their time ran out meanwhile. ErrNoQuorum, or ctx's
// error, means that the release is not confirmed yet. It continues in the background, and another
// Release waits for it.
func (l *Lease) Release(ctx context.Context) error {
	switch {
	case l.inner().IsZero():
		return nil
	case ctx == nil:
		return errNilContext
	}
	return l.inner().Release(ctx)
}

// ReleaseAll is Release for many leases, in one round trip to each node. The error joins the errors
// that Release would have returned, each with its key. A nil Lease and the zero Lease are skipped.
func (c *Client) ReleaseAll(ctx context.Context, leases ...*Lease) error {
	if ctx == nil {
		return errNilContext
	}
	held := make([]*locker.Lease, 0, len(leases))
	for _, l := range leases {
		if !l.inner().IsZero() {
			held = append(held, l.inner())
		}
	}
	return prefix.Join(locker.ReleaseAll(ctx, held))
}
