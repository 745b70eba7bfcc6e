// Package redislock has the API of github.com/bsm/redislock on top of lockpipe, so that a code base
// can move file by file: change the import, and give New a lockpipe.Client instead of a Redis
// client. While only a part has moved, the client's only node must be the server of redislock, and
// Config.Prefix empty. Then both libraries exclude each other. README.md says what differs.
package redislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe"
)

// Errors of redislock. They are returned bare where redislock does so, so == works as before.
var (
	// ErrNotObtained means that another holder has a key, or for Refresh, that the lock is over.
	ErrNotObtained = errors.New("redislock: not obtained")
	// ErrLockNotHeld means that the lock was over before it was released.
	ErrLockNotHeld     = errors.New("redislock: lock not held")
	errTokenOrMetadata = fmt.Errorf("redislock: %w: Options.Token and Options.Metadata must be "+
		"empty: a lock has a random token, and the nodes keep no metadata: leave this call with "+
		"bsm/redislock, or name the holder by lockpipe's Config.Owner", lockpipe.ErrInvalid)
)

// Client obtains locks. New makes it. It is safe for concurrent use.
type Client struct{ client *lockpipe.Client }

// New returns a Client whose locks share client. The caller closes client.
func New(client *lockpipe.Client) *Client { return &Client{client} }

// Obtain is New(client).Obtain.
func Obtain(ctx context.Context, client *lockpipe.Client, key string, ttl time.Duration,
	opt *Options,
) (*Lock, error) {
	return New(client).Obtain(ctx, key, ttl, opt)
}

// ObtainMulti is New(client).ObtainMulti.
func ObtainMulti(ctx context.Context, client *lockpipe.Client, keys []string, ttl time.Duration,
	opt *Options,
) (*Lock, error) {
	return New(client).ObtainMulti(ctx, keys, ttl, opt)
}

// Options change one call. nil is the zero value.
type Options struct {
	// RetryStrategy says for how long Obtain waits, and when Refresh tries again; nil is NoRetry.
	RetryStrategy RetryStrategy
	// Metadata must be empty, or Obtain returns lockpipe.ErrInvalid.
	//
	// Deprecated: the nodes keep no metadata. Name the holder by lockpipe's Config.Owner.
	Metadata string
	// Token must be empty, or Obtain returns lockpipe.ErrInvalid.
	//
	// Deprecated: each attempt has a random token, or a late release could delete the next lock.
	Token string
	// Lease are options for Obtain that redislock has not, such as lockpipe.WithAutoExtend.
	Lease []lockpipe.Option
}

// Obtain is ObtainMulti for one key.
func (c *Client) Obtain(ctx context.Context, key string, ttl time.Duration, opt *Options) (*Lock,
	error,
) {
	return c.ObtainMulti(ctx, []string{key}, ttl, opt)
}

// ObtainMulti obtains a lock of all keys, or of none. After a first attempt it waits in line for as
// long as the strategy retries, until ctx ends, or for ttl if ctx has no deadline. It is notified
// when the keys are free. On several nodes all callers of the same moment may fail, because they
// divide the votes: the strategy should retry for some 50 ms at least.
//
// The error is ErrNotObtained if others have a key. If ctx or ttl ended the wait, errors.Is also
// finds the error of the context. All other errors are those of lockpipe.Client.AcquireAll.
func (c *Client) ObtainMulti(ctx context.Context, keys []string, ttl time.Duration, opt *Options) (
	*Lock, error,
) {
	opt = cmp.Or(opt, &Options{})
	if opt.Token != "" || opt.Metadata != "" {
		return nil, errTokenOrMetadata
	}
	options := append([]lockpipe.Option{lockpipe.WithTTL(ttl)}, opt.Lease...)
	ctx, cancel := withDeadline(ctx, ttl)
	defer cancel()
	lease, err := c.client.TryAcquireAll(ctx, keys, options...)
	if retry := opt.retryStrategy(); mayRetry(err) {
		if delay := retry.NextBackoff(); delay > 0 {
			retryCtx, stop := retryContext(ctx, retry, delay)
			l, waitErr := c.client.AcquireAll(retryCtx, keys, options...)
			stop()
			if mayRetry(waitErr) || !errors.Is(waitErr, retryCtx.Err()) {
				lease, err = l, waitErr
			}
		}
	}
	if err != nil {
		return nil, obtainError(ctx, err)
	}
	return &Lock{lease: lease}, nil
}

// mayRetry reports whether another attempt may help. Callers that divide the votes get either.
func mayRetry(err error) bool {
	return errors.Is(err, lockpipe.ErrHeld) || errors.Is(err, lockpipe.ErrNoQuorum)
}

// obtainError is err for the caller, who does not know the context of the retries.
func obtainError(ctx context.Context, err error) error {
	var quorum *lockpipe.QuorumError
	switch {
	case errors.Is(err, lockpipe.ErrClosed):
		return err
	case errors.Is(err, lockpipe.ErrHeld):
		err = ErrNotObtained
	case errors.As(err, &quorum):
		err = quorum
	}
	if end := ctx.Err(); end != nil {
		return errors.Join(err, end)
	}
	return err
}

// withDeadline returns ctx with a deadline: its own, or else ttl from now.
func withDeadline(ctx context.Context, ttl time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, ttl)
}

// Lock is an obtained lock. It is safe for concurrent use.
type Lock struct {
	lease    *lockpipe.Lease
	released atomic.Bool // by Release, which was confirmed
}

// Lease returns what is behind the lock. Its Context ends when the lock ends. It is lockpipe's own.
func (l *Lock) Lease() *lockpipe.Lease { return l.lease }

// Key returns the first key.
func (l *Lock) Key() string { return l.lease.Key() }

// Keys returns all keys, each once.
func (l *Lock) Keys() []string { return l.lease.Keys() }

// Token returns what the value of the keys begins with on the nodes: see lockpipe.Lease.Token.
func (l *Lock) Token() string { return l.lease.Token() }

// Metadata returns "": see Options.
func (l *Lock) Metadata() string { return "" }

// TTL returns how long the lock lasts unless it is refreshed, or 0 if it is over. It reads the
// local clock and does not ask the nodes. The error is ErrLockNotHeld if l is nil.
func (l *Lock) TTL(context.Context) (time.Duration, error) {
	if l == nil {
		return 0, ErrLockNotHeld
	}
	return max(0, time.Until(l.lease.Until())), nil
}

// Refresh lets the lock last for ttl from now. The error is ErrNotObtained if the lock was over.
// lockpipe.ErrNoQuorum means that no try of the strategy was confirmed: the lock lasts as long as
// TTL says. The other errors are those of Lease.Extend. Of opt only the strategy counts.
func (l *Lock) Refresh(ctx context.Context, ttl time.Duration, opt *Options) error {
	if l == nil {
		return ErrNotObtained
	}
	ctx, cancel := withDeadline(ctx, ttl)
	defer cancel()
	for retry := opt.retryStrategy(); ; {
		err := l.lease.Extend(ctx, ttl)
		switch {
		case leaseEnded(err):
			return ErrNotObtained
		case !errors.Is(err, lockpipe.ErrNoQuorum) || ctx.Err() != nil:
			return err
		}
		delay := retry.NextBackoff()
		if delay <= 0 {
			return err
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// Release ends the lock and deletes its keys. The error is ErrLockNotHeld if the lock was over,
// also by an earlier Release. lockpipe.ErrNoQuorum, or ctx's error, means that too few nodes have
// confirmed it yet. Then it continues in the background, and another Release waits for it.
// lockpipe.ErrClosed means that Close of the lockpipe.Client has ended the lock.
func (l *Lock) Release(ctx context.Context) error {
	if l == nil || l.released.Load() {
		return ErrLockNotHeld
	}
	err := l.lease.Release(ctx)
	if ended := leaseEnded(err); ended || err == nil {
		if l.released.Swap(true) || ended {
			return ErrLockNotHeld
		}
	}
	return err
}

// leaseEnded reports whether err says that the lease had ended before.
func leaseEnded(err error) bool {
	return errors.Is(err, lockpipe.ErrExpired) || errors.Is(err, lockpipe.ErrLost) ||
		errors.Is(err, lockpipe.ErrReleased) || errors.Is(err, lockpipe.ErrKept)
}
