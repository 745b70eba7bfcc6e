package redislock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	original "github.com/bsm/redislock"
	"github.com/lockpipe/lockpipe/adapters/redislock"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// These tests check what redislock's own tests expect, for both libraries.

// The goal: a lock is on a majority of the nodes with its token, TTL says how long, Refresh changes
// that in both directions, and Release leaves nothing. Then the lock is over.
func TestLock_LastsUntilRelease(t *testing.T) {
	withEach(t, func(t *testing.T, nodes *lockpipetest.Nodes, lib library) {
		ctx, keys := t.Context(), []string{t.Name() + "a", t.Name() + "b"}
		l, err := lib.obtain(ctx, longTTL/2, nil, keys...)
		require.NoError(t, err)
		require.Equal(t, keys[0], l.Key())
		require.Equal(t, keys, l.Keys())
		require.Empty(t, l.Metadata())
		requireHeld(t, nodes, l)
		for _, ttl := range []time.Duration{longTTL / 2, longTTL, longTTL / 4} {
			require.NoError(t, lib.refresh(ctx, l, ttl, nil))
			left, err := l.TTL(ctx)
			require.NoError(t, err)
			require.LessOrEqual(t, left, ttl)
			require.Greater(t, left, ttl/2)
		}
		requireHeld(t, nodes, l)
		require.NoError(t, l.Release(ctx))
		for _, key := range keys {
			waitUntilFree(t, nodes, key)
		}
		requireOver(t, lib, l)
	})
}

// requireOver fails unless l is over by its own account.
func requireOver(t *testing.T, lib library, l lock) {
	t.Helper()
	left, err := l.TTL(t.Context())
	require.NoError(t, err)
	require.Zero(t, left)
	retry := lib.linear(time.Hour) // unsuccessfully: a lock that is over stays so
	require.Equal(t, lib.notObtained, lib.refresh(t.Context(), l, longTTL, retry))
	require.Equal(t, lib.notHeld, l.Release(t.Context()))
}

// The goal: while a lock is held, all others get ErrNotObtained itself, at once or when their
// retries are over, also the holder. ObtainMulti then takes none of its keys.
func TestObtain_HeldIsNotObtained(t *testing.T) {
	withEach(t, func(t *testing.T, nodes *lockpipetest.Nodes, lib library) {
		ctx, key, other := t.Context(), t.Name(), t.Name()+"other"
		l, err := lib.obtain(ctx, longTTL, nil, key)
		require.NoError(t, err)
		for _, retry := range []strategy{
			nil, lib.linear(0), lib.limit(lib.linear(time.Millisecond), 3),
			lib.limit(lib.linear(time.Hour), 0),
		} {
			for _, keys := range [][]string{{key}, {other, key}} {
				_, err = lib.obtain(ctx, longTTL, retry, keys...)
				require.Equal(t, lib.notObtained, err)
			}
		}
		waitUntilFree(t, nodes, other)
		requireHeld(t, nodes, l)
		require.NoError(t, l.Release(ctx))
		l, err = lib.obtain(ctx, longTTL, nil, other, key)
		require.NoError(t, err)
		require.NoError(t, l.Release(ctx))
	})
}

// The goal: the end of ctx ends Obtain, and so does ttl if ctx has no deadline. The error is that
// of the context and ErrNotObtained.
func TestObtain_EndsWithItsContext(t *testing.T) {
	withEach(t, func(t *testing.T, nodes *lockpipetest.Nodes, lib library) {
		l, err := lib.obtain(t.Context(), longTTL, nil, t.Name())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		_, err = lib.obtain(ctx, longTTL, strategyFunc(func() time.Duration {
			cancel()
			return time.Hour
		}), t.Name())
		require.ErrorIs(t, err, lib.notObtained)
		require.ErrorIs(t, err, context.Canceled)

		_, err = lib.obtain(t.Context(), shortTTL, lib.linear(time.Hour), t.Name())
		require.ErrorIs(t, err, lib.notObtained)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, context.Canceled)
		requireHeld(t, nodes, l)
		require.NoError(t, l.Release(t.Context()))
		waitUntilFree(t, nodes, t.Name())
	})
}

type strategyFunc func() time.Duration

func (f strategyFunc) NextBackoff() time.Duration { return f() }

// The goal: Obtain with a strategy waits until the lock is free, by Release or by its TTL.
func TestObtain_WaitsForTheLock(t *testing.T) {
	withEach(t, func(t *testing.T, nodes *lockpipetest.Nodes, lib library) {
		takeTurns(t, lib, lib, lib, lib)
		expired, err := lib.obtain(t.Context(), shortTTL, nil, t.Name())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		l, err := lib.obtain(ctx, longTTL, lib.linear(10*time.Millisecond), t.Name())
		require.NoError(t, err)
		requireOver(t, lib, expired)
		requireHeld(t, nodes, l)
		require.NoError(t, l.Release(ctx))
	})
}

// takeTurns has callers want one lock, and fails unless each gets it several times, and never
// two at the same time.
func takeTurns(t *testing.T, callers ...library) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	inside := make(chan struct{}, 1)
	results := make(chan error)
	for _, lib := range callers {
		go func() {
			results <- func() error {
				for range 5 {
					l, err := lib.obtain(ctx, longTTL, lib.linear(time.Millisecond), t.Name())
					if err != nil {
						return err
					}
					select {
					case inside <- struct{}{}:
					default:
						return fmt.Errorf("another is inside")
					}
					<-inside
					if err := l.Release(ctx); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	for range callers {
		require.NoError(t, <-results)
	}
}

// The goal: a lock whose keys others have taken is over, and what the others have stays.
func TestLock_LostIsNotObtained(t *testing.T) {
	withEach(t, func(t *testing.T, nodes *lockpipetest.Nodes, lib library) {
		l, err := lib.obtain(t.Context(), longTTL, nil, t.Name())
		require.NoError(t, err)
		doOnAll(t, nodes, "SET", t.Name(), "another's")
		require.Equal(t, lib.notObtained, lib.refresh(t.Context(), l, longTTL, nil))
		requireOver(t, lib, l)
		require.Equal(t, nodes.Len(), holders(t, nodes, t.Name(), "another's"))
	})
}

// The goal: methods of a nil Lock that may follow a failed Obtain do not panic.
func TestLock_NilIsOver(t *testing.T) {
	var l *redislock.Lock
	_, err := l.TTL(t.Context())
	require.Equal(t, redislock.ErrLockNotHeld, err)
	require.Equal(t, redislock.ErrLockNotHeld, l.Release(t.Context()))
	require.Equal(t, redislock.ErrNotObtained, l.Refresh(t.Context(), longTTL, nil))
}

// The goal: the strategies have the delays of redislock's.
func TestStrategies_AreRedislocks(t *testing.T) {
	for _, d := range []time.Duration{0, 1, time.Second} {
		ours := []strategy{
			redislock.NoRetry(), redislock.LinearBackoff(d),
			redislock.LimitRetry(redislock.LinearBackoff(d), 3),
			redislock.LimitRetry(redislock.LinearBackoff(d), -1),
			redislock.ExponentialBackoff(d, 0), redislock.ExponentialBackoff(0, d),
			redislock.ExponentialBackoff(d, time.Minute),
		}
		theirs := []strategy{
			original.NoRetry(), original.LinearBackoff(d),
			original.LimitRetry(original.LinearBackoff(d), 3),
			original.LimitRetry(original.LinearBackoff(d), -1),
			original.ExponentialBackoff(d, 0), original.ExponentialBackoff(0, d),
			original.ExponentialBackoff(d, time.Minute),
		}
		for i := range ours {
			for n := range 40 {
				require.Equal(t, theirs[i].NextBackoff(), ours[i].NextBackoff(),
					"%v, strategy %d, call %d", d, i, n)
			}
		}
	}
}
