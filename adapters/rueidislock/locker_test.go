package rueidislock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// These tests check what rueidislock's own tests expect, for both libraries.

type contextKey struct{}

// The goal: the context of a lock has the values of the caller's and lasts, the lock is on a
// majority of the nodes, and cancel ends both. A second cancel does nothing.
func TestLocker_LocksUntilCancel(t *testing.T) {
	s := settings{validity: longTTL, majority: 2}
	withEach(t, s, func(t *testing.T, nodes *lockpipetest.Nodes, lib library) {
		for name, acquire := range map[string]func(context.Context, string) (context.Context,
			context.CancelFunc, error){
			"WithContext": lib.WithContext, "TryWithContext": lib.TryWithContext,
		} {
			ctx, cancel, err := acquire(context.WithValue(t.Context(), contextKey{}, 1), name)
			require.NoError(t, err)
			require.Equal(t, 1, ctx.Value(contextKey{}))
			require.NoError(t, ctx.Err())
			taken := 0
			for _, key := range keysOf(name, 2) {
				if 2*holders(t, nodes, key) > nodes.Len() {
					taken++
				}
			}
			require.GreaterOrEqual(t, taken, 2)
			cancel()
			<-ctx.Done()
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			cancel()
			waitUntilFree(t, nodes, name, 2)
		}
	})
}

// The goal: while a lock is held, also by this Locker, a try is refused at once, and its context is
// over. A waiting call ends with its context.
func TestLocker_HeldIsNotLocked(t *testing.T) {
	withEach(t, settings{validity: longTTL}, func(t *testing.T, nodes *lockpipetest.Nodes,
		lib library,
	) {
		held, cancel, err := lib.WithContext(t.Context(), "k")
		require.NoError(t, err)
		over, nothing, err := lib.TryWithContext(t.Context(), "k")
		require.ErrorIs(t, err, lib.notLocked)
		require.Error(t, over.Err())
		nothing()
		ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer stop()
		_, _, err = lib.WithContext(ctx, "k")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, lib.notLocked)
		require.NoError(t, held.Err())
		require.Equal(t, nodes.Len(), holders(t, nodes, keysOf("k", 1)[0]))
		cancel()
		_, cancel, err = lib.TryWithContext(t.Context(), "k")
		require.NoError(t, err)
		cancel()
	})
}

// The goal: WithContext waits until the lock is free, and never two callers have it.
func TestLocker_WithContextWaits(t *testing.T) {
	withEach(t, settings{validity: longTTL, majority: 2}, func(t *testing.T,
		nodes *lockpipetest.Nodes, lib library,
	) {
		takeTurns(t, lib, lib, lib, lib)
		waitUntilFree(t, nodes, t.Name(), 2)
	})
}

// takeTurns has callers want one lock, and fails unless each gets it several times, and never
// two at the same time.
func takeTurns(t *testing.T, callers ...library) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), testTimeout)
	defer stop()
	inside := make(chan struct{}, 1)
	results := make(chan error)
	for _, lib := range callers {
		go func() {
			results <- func() error {
				for range 5 {
					_, cancel, err := lib.WithContext(ctx, t.Name())
					if err != nil {
						return err
					}
					select {
					case inside <- struct{}{}:
					default:
						return fmt.Errorf("another is inside")
					}
					<-inside
					cancel()
				}
				return nil
			}()
		}()
	}
	for range callers {
		require.NoError(t, <-results)
	}
}

// The goal: the end of the caller's context ends the lock's with its own error, and releases the
// lock.
func TestLocker_EndOfContextReleases(t *testing.T) {
	withEach(t, settings{validity: longTTL}, func(t *testing.T, nodes *lockpipetest.Nodes,
		lib library,
	) {
		parent, stop := context.WithCancel(t.Context())
		ctx, cancel, err := lib.WithContext(parent, "k")
		require.NoError(t, err)
		defer cancel()
		stop()
		<-ctx.Done()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		waitUntilFree(t, nodes, "k", 1)

		parent, stop = context.WithTimeout(t.Context(), shortTTL)
		defer stop()
		ctx, cancel, err = lib.WithContext(parent, "k")
		require.NoError(t, err)
		defer cancel()
		<-ctx.Done()
		// rueidislock also cancels it by itself, if an extension of the last moment fails first.
		require.Contains(t, []error{context.DeadlineExceeded, context.Canceled}, ctx.Err())
		waitUntilFree(t, nodes, "k", 1)
	})
}

// The goal: a lock that is not released outlasts its validity. If others take its keys, its context
// ends, and what the others have stays.
func TestLocker_ExtendsUntilLost_InRealTime(t *testing.T) {
	servertest.RealTime(t)
	withEach(t, settings{validity: shortTTL, majority: 2}, func(t *testing.T,
		nodes *lockpipetest.Nodes, lib library,
	) {
		ctx, cancel, err := lib.WithContext(t.Context(), "k")
		require.NoError(t, err)
		defer cancel()
		select {
		case <-ctx.Done():
			require.Fail(t, "the lock ended", "%v", context.Cause(ctx))
		case <-time.After(2 * shortTTL):
		}
		for i := range nodes.Len() {
			for _, key := range keysOf("k", 2) {
				_, err := nodes.Do(i, "SET", key, "another's")
				require.NoError(t, err)
			}
		}
		<-ctx.Done()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		cancel()
		for _, key := range keysOf("k", 2) {
			require.Equal(t, nodes.Len(), holders(t, nodes, key), "two holders: %s was deleted", key)
		}
	})
}

// The goal: Close ends the contexts of all locks, releases them, and ends waiting and later calls
// with ErrLockerClosed.
func TestLocker_CloseEndsAll(t *testing.T) {
	withEach(t, settings{validity: longTTL}, func(t *testing.T, nodes *lockpipetest.Nodes,
		lib library,
	) {
		ctx, cancel, err := lib.WithContext(t.Context(), "k")
		require.NoError(t, err)
		ended := make(chan error)
		go func() {
			_, _, err := lib.WithContext(t.Context(), "k")
			ended <- err
		}()
		lib.Close()
		<-ctx.Done()
		require.Equal(t, lib.closed, <-ended)
		_, _, err = lib.WithContext(t.Context(), "k")
		require.Equal(t, lib.closed, err)
		_, _, err = lib.TryWithContext(t.Context(), "k")
		require.Equal(t, lib.closed, err)
		cancel()
		if lib.isLockpipe { // rueidislock's connection may be gone before its commands
			waitUntilFree(t, nodes, "k", 1)
		}
	})
}
