package redislock_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/adapters/redislock"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// The goal: on one node, what one library has locked is taken for the other, also after Refresh,
// and free at once after Release.
func TestMigration_BothExcludeEachOther(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	moved, old := openLockpipe(t, nodes), openRedislock(t, nodes)
	for name, sides := range map[string][2]library{
		"new, then old": {moved, old},
		"old, then new": {old, moved},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, keys := t.Context(), []string{t.Name() + "a", t.Name() + "b"}
			l, err := sides[0].obtain(ctx, longTTL, nil, keys...)
			require.NoError(t, err)
			require.NoError(t, sides[0].refresh(ctx, l, longTTL, nil))
			for _, key := range keys {
				_, err = sides[1].obtain(ctx, longTTL, nil, key)
				require.Equal(t, sides[1].notObtained, err)
			}
			require.NoError(t, l.Release(ctx))
			other, err := sides[1].obtain(ctx, longTTL, nil, keys...)
			require.NoError(t, err)
			require.Equal(t, sides[0].notHeld, l.Release(ctx))
			requireHeld(t, nodes, other)
			require.NoError(t, other.Release(ctx))
		})
	}
	t.Run("in contention", func(t *testing.T) {
		takeTurns(t, moved, old, openLockpipe(t, nodes), openRedislock(t, nodes))
	})
}

// The goal: Obtain refuses a token and metadata, which nodes would not have, and says what to do.
func TestOptions_TokenAndMetadataAreRefused(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	client := newClient(t, nodes)
	for _, opt := range []*redislock.Options{{Token: "mine"}, {Metadata: "mine"}} {
		_, err := redislock.Obtain(t.Context(), client, "k", longTTL, opt)
		require.ErrorIs(t, err, lockpipe.ErrInvalid)
		require.ErrorContains(t, err, "bsm/redislock")
	}
	require.Equal(t, nodes.Len(), holders(t, nodes, "k", ""))
	_, err := redislock.ObtainMulti(t.Context(), client, []string{"k"}, 2*longTTL, nil)
	require.ErrorIs(t, err, lockpipe.ErrInvalid)
	require.ErrorContains(t, err, "MaxTTL")
}

// The goal: Release wakes a waiting Obtain, of this process or another, which does not sleep for
// the rest of its delay.
func TestObtain_IsWokenByRelease(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	client := newClient(t, nodes)
	for name, waiting := range map[string]*lockpipe.Client{
		"of the same process": client,
		"of another":          newClient(t, nodes),
	} {
		t.Run(name, func(t *testing.T) {
			first, err := redislock.Obtain(t.Context(), client, t.Name(), longTTL, nil)
			require.NoError(t, err)
			sleeping := make(chan struct{})
			obtained := make(chan error)
			go func() {
				l, err := redislock.Obtain(t.Context(), waiting, t.Name(), longTTL,
					&redislock.Options{RetryStrategy: strategyFunc(func() time.Duration {
						close(sleeping)
						return time.Hour
					})})
				if err == nil {
					err = l.Release(t.Context())
				}
				obtained <- err
			}()
			<-sleeping
			require.NoError(t, first.Release(t.Context()))
			require.NoError(t, <-obtained)
		})
	}
}

// The goal: an outage is no ErrNotObtained. Obtain and Refresh retry it by the strategy, and the
// lock lasts meanwhile.
func TestOutage_IsRetried(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: nodes.URLs(), TTL: longTTL, NodeTimeout: 100 * time.Millisecond,
	})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close(context.Background()) })
	require.NoError(t, client.Ready(t.Context()))
	retry := &redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)}
	l, err := redislock.Obtain(t.Context(), client, "held", longTTL, retry)
	require.NoError(t, err)
	require.NoError(t, nodes.Freeze(0))
	require.NoError(t, nodes.Freeze(1))

	_, err = redislock.Obtain(t.Context(), client, "free", longTTL, nil)
	require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
	require.NotErrorIs(t, err, redislock.ErrNotObtained)
	limited := &redislock.Options{RetryStrategy: redislock.LimitRetry(retry.RetryStrategy, 2)}
	_, err = redislock.Obtain(t.Context(), client, "free", longTTL, limited)
	require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
	require.NotErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, l.Refresh(t.Context(), longTTL, nil), lockpipe.ErrNoQuorum)
	left, err := l.TTL(t.Context())
	require.NoError(t, err)
	require.Positive(t, left)

	thaw := func() time.Duration {
		_ = nodes.Thaw(0)
		_ = nodes.Thaw(1)
		return 10 * time.Millisecond
	}
	thawing := &redislock.Options{RetryStrategy: strategyFunc(thaw)}
	require.NoError(t, l.Refresh(t.Context(), longTTL, thawing))
	other, err := redislock.Obtain(t.Context(), client, "free", longTTL, retry)
	require.NoError(t, err)
	for _, held := range []*redislock.Lock{other, l} { // a busy machine may miss NodeTimeout
		require.Eventually(t, func() bool { return held.Release(t.Context()) == nil }, testTimeout,
			time.Millisecond)
	}
}

// The goal: the options of lockpipe reach the lease, which says when the lock ends.
func TestOptions_OfLockpipe(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	client := newClient(t, nodes)
	l, err := redislock.Obtain(t.Context(), client, "k", 2*shortTTL, &redislock.Options{
		Lease: []lockpipe.Option{lockpipe.WithAutoExtend(longTTL), lockpipe.WithFencing()},
	})
	require.NoError(t, err)
	require.Positive(t, l.Lease().Fence())
	first := l.Lease().Until()
	require.Eventually(t, func() bool { return l.Lease().Until().After(first) }, testTimeout,
		time.Millisecond)
	doOnAll(t, nodes, "SET", "k", "another's")
	<-l.Lease().Done()
	require.ErrorIs(t, l.Lease().Err(), lockpipe.ErrLost)
	require.Equal(t, redislock.ErrLockNotHeld, l.Release(t.Context()))
}

// The goal: releasing a lock whose key was deleted or overwritten says so, as redislock does.
func TestRelease_OfAKeyThatIsGone(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	l, err := redislock.New(newClient(t, nodes)).Obtain(t.Context(), t.Name(), longTTL, nil)
	require.NoError(t, err)
	for i := range nodes.Len() {
		_, err := nodes.Do(i, "SET", t.Name(), "another", "PX", "600000")
		require.NoError(t, err)
	}
	for range 2 {
		require.ErrorIs(t, l.Release(t.Context()), redislock.ErrLockNotHeld)
	}
}

// The goal: a Release whose context has ended still releases the lock, in the background. Another
// Release waits for that.
func TestRelease_ContinuesAfterTheContext(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	l, err := redislock.New(newClient(t, nodes)).Obtain(t.Context(), "k", longTTL, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Release(ctx); err != nil {
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, l.Release(t.Context()))
	}
	waitUntilFree(t, nodes, "k")
	require.Equal(t, redislock.ErrLockNotHeld, l.Release(t.Context()))
}

// The goal: Close of the client ends a waiting Obtain, and a lock, with an error that says so.
func TestClose_EndsCallsAndLocks(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	client := newClient(t, nodes)
	l, err := redislock.Obtain(t.Context(), client, "k", longTTL, nil)
	require.NoError(t, err)
	waiting := make(chan struct{})
	ended := make(chan error)
	go func() {
		_, err := redislock.Obtain(t.Context(), client, "k", longTTL, &redislock.Options{
			RetryStrategy: strategyFunc(func() time.Duration {
				close(waiting)
				return time.Hour
			}),
		})
		ended <- err
	}()
	<-waiting
	require.NoError(t, client.Close(t.Context()))
	require.ErrorIs(t, <-ended, lockpipe.ErrClosed)
	require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrClosed)
	require.ErrorIs(t, l.Refresh(t.Context(), longTTL, nil), lockpipe.ErrClosed)
	waitUntilFree(t, nodes, "k")
}

func ExampleNew() {
	_ = func(ctx context.Context) error {
		client, err := lockpipe.New(lockpipe.Config{
			Nodes: []string{
				"redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379",
			},
			MaxTTL: 30 * time.Second, // the longest ttl of all calls
		})
		if err != nil {
			return err
		}
		locker := redislock.New(client) // was: redislock.New(rdb)

		// What follows is as before.
		lock, err := locker.Obtain(ctx, "order:42", 30*time.Second, &redislock.Options{
			RetryStrategy: redislock.LimitRetry(redislock.LinearBackoff(100*time.Millisecond), 3),
		})
		if err != nil {
			return err
		}
		defer lock.Release(ctx)
		return lock.Refresh(ctx, 30*time.Second, nil)
	}
}
