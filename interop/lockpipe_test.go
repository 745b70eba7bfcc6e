package interop

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

type lockpipeLocker struct {
	client  *lockpipe.Client
	options []lockpipe.Option
}

func openLockpipe(t *testing.T, urls []string) locker {
	return newLockpipe(t, urls)
}

func openLockpipeFencing(t *testing.T, urls []string) locker {
	return newLockpipe(t, urls, lockpipe.WithFencing())
}

func newLockpipe(t *testing.T, urls []string, options ...lockpipe.Option) *lockpipeLocker {
	t.Helper()
	// NodeTimeout is long enough for a busy machine.
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: urls, Prefix: prefix, TTL: longTTL,
		NodeTimeout: longTTL / 4,
	})
	require.NoError(t, err)
	l := &lockpipeLocker{client, options}
	t.Cleanup(func() { l.close(t) })
	// This makes the connections now, so that they take no time of a short TTL.
	lease, err := client.TryAcquire(t.Context(), "warm:"+rand.Text())
	require.NoError(t, err)
	require.NoError(t, lease.Release(t.Context()))
	return l
}

func (l *lockpipeLocker) try(ctx context.Context, key string, ttl time.Duration) (*lock, error) {
	return l.acquire(ctx, l.client.TryAcquireAll, ttl, key)
}

func (l *lockpipeLocker) wait(ctx context.Context, key string, ttl time.Duration) (*lock, error) {
	return l.acquire(ctx, l.client.AcquireAll, ttl, key)
}

type acquireFunc func(ctx context.Context, keys []string, opts ...lockpipe.Option) (*lockpipe.Lease,
	error)

func (l *lockpipeLocker) acquire(ctx context.Context, call acquireFunc, ttl time.Duration,
	keys ...string,
) (*lock, error) {
	bare := make([]string, len(keys))
	for i, key := range keys {
		bare[i] = strings.TrimPrefix(key, prefix)
	}
	lease, err := call(ctx, bare, append([]lockpipe.Option{lockpipe.WithTTL(ttl)},
		l.options...)...)
	if errors.Is(err, lockpipe.ErrHeld) {
		return nil, fmt.Errorf("%w: %w", errTaken, err)
	}
	if err != nil {
		return nil, err
	}
	return &lock{
		value:   lease.Token(),
		until:   lease.Until(),
		extend:  func(ctx context.Context) error { return lease.Extend(ctx, ttl) },
		release: lease.Release,
	}, nil
}

func (l *lockpipeLocker) close(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	require.NoError(t, l.client.Close(ctx))
}
