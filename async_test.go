package lockpipe_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// The goal: calls for one key are granted, and their functions called, in the order of the calls,
// and only the first of them asks the nodes.
func TestAsync_CallsAreGrantedInOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		const calls = 50
		held := v.hold(t, c, "k")
		attempts := c.Stats().Attempts
		var mu sync.Mutex
		var order []int
		for i := range calls {
			require.NoError(t, c.AcquireAsync(t.Context(), []string{"k"}, func(l *lockpipe.Lease,
				err error,
			) {
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				if err == nil {
					err = l.Release(context.Background())
				}
				if err != nil {
					t.Error(i, err)
				}
			}))
		}
		time.Sleep(100 * time.Millisecond)
		require.Less(t, c.Stats().Attempts-attempts, uint64(20),
			"more than the first asked the nodes")
		release(t, held)
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, order, calls)
		require.True(t, slices.IsSorted(order), "%v", order)
		v.nothingLeft(t)
	})
}

// The goal: calls that were made before anything is known of the key do not all ask the nodes.
func TestAsync_CallsOfOneKeyAreNoHerd(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		var calls []<-chan outcome
		for range 100 {
			ended := make(chan outcome, 1)
			require.NoError(t, c.AcquireAsync(t.Context(), []string{"k"}, func(l *lockpipe.Lease,
				err error,
			) {
				ended <- outcome{lease: l, err: err}
			}))
			calls = append(calls, ended)
		}
		for i, ended := range calls {
			l := granted(t, ended)
			for _, other := range calls[i+1:] {
				waits(t, other)
			}
			release(t, l)
		}
		require.Less(t, c.Stats().Attempts, uint64(10))
		v.nothingLeft(t)
	})
}

// The goal: calls whose ctx ends leave the queue, and their functions get the error that AcquireAll
// would return.
func TestAsync_FunctionsGetTheErrorsOfAcquireAll(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		held := v.hold(t, c, "k")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := async(ctx, t, c, []string{"k"})
		var all []<-chan outcome
		for range 1000 {
			all = append(all, async(ctx, t, c, []string{"k"}))
		}
		release(t, held)
		l := granted(t, first)
		require.Equal(t, []string{"k"}, l.Keys())
		cancel()
		for _, ended := range all {
			synctest.Wait()
			o := <-ended
			require.ErrorIs(t, o.err, lockpipe.ErrHeld)
			require.ErrorIs(t, o.err, context.Canceled)
			require.Nil(t, o.lease)
		}
		release(t, l)
	})
}

// The goal: AcquireAsync returns at once what is wrong with a call, and does not call its function
// then.
func TestAsync_ACallThatIsRefusedIsNotDone(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, _ *fakeNodes, c *lockpipe.Client) {
		done := func(*lockpipe.Lease, error) { t.Error("done was called") }
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, c.AcquireAsync(t.Context(), nil, done), lockpipe.ErrInvalid)
		require.ErrorIs(t, c.AcquireAsync(t.Context(), []string{""}, done), lockpipe.ErrInvalid)
		require.ErrorIs(t, c.AcquireAsync(t.Context(), []string{"k"}, nil), lockpipe.ErrInvalid)
		require.ErrorIs(t, c.AcquireAsync(t.Context(), []string{"k"}, done, lockpipe.WithTTL(0)),
			lockpipe.ErrInvalid)
		require.ErrorIs(t, c.AcquireAsync(over, []string{"k"}, done), context.Canceled)
		require.NoError(t, c.Close(t.Context()))
		require.ErrorIs(t, c.AcquireAsync(t.Context(), []string{"k"}, done), lockpipe.ErrClosed)
	})
}

// The goal: a call whose ctx ends leaves the queue at once, and the next one is granted the key
// nonetheless.
func TestAsync_ACallThatIsCancelledMakesRoom(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		held := v.hold(t, c, "k")
		short, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		first := async(short, t, c, []string{"k"})
		second := async(t.Context(), t, c, []string{"k"})
		start := time.Now()
		o := <-first
		require.ErrorIs(t, o.err, lockpipe.ErrHeld)
		require.ErrorIs(t, o.err, context.DeadlineExceeded)
		require.LessOrEqual(t, o.at.Sub(start), 30*time.Millisecond)
		waits(t, second)
		release(t, held)
		release(t, granted(t, second))
		v.nothingLeft(t)
	})
}

// The goal: Close ends the calls that wait, and leaves nothing.
func TestAsync_CloseEndsCalls(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		v.hold(t, v.client(t), "k")
		var all []<-chan outcome
		for _, keys := range [][]string{{"k"}, {"k"}, {"k", "l"}} {
			all = append(all, async(t.Context(), t, c, keys))
		}
		start := time.Now()
		require.NoError(t, c.Close(t.Context()))
		for _, ended := range all {
			o := <-ended
			require.ErrorIs(t, o.err, lockpipe.ErrClosed)
			require.Nil(t, o.lease)
			require.Less(t, o.at.Sub(start), time.Millisecond)
		}
	})
}

// The goal: a call may be closed while its attempt is under way: nothing is left then.
func TestAsync_CloseWhileAnAttemptIsUnderWay(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		v.silence(0, 1)
		ended := async(t.Context(), t, c, []string{"k"})
		closed := later(func() error { return c.Close(t.Context()) })
		synctest.Wait()
		v.speak(0, 1)
		require.NoError(t, <-closed)
		o := <-ended
		if o.err == nil {
			require.ErrorIs(t, o.lease.Err(), lockpipe.ErrClosed)
		} else {
			require.ErrorIs(t, o.err, lockpipe.ErrClosed)
		}
		v.nothingLeft(t)
	}, timeout(50*time.Millisecond))
}

// The goal: if no quorum answers, the call is not stuck. Its attempt ends after NodeTimeout, and
// the next one follows.
func TestAsync_ACallOutlastsNodesThatHang(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		v.silence(0, 1)
		start := time.Now()
		once := <-async(t.Context(), t, c, []string{"k"}, lockpipe.WithMaxAttempts(1))
		require.ErrorIs(t, once.err, lockpipe.ErrNoQuorum)
		require.Equal(t, 50*time.Millisecond, once.at.Sub(start).Truncate(time.Millisecond))
		ended := async(t.Context(), t, c, []string{"k"})
		time.Sleep(200 * time.Millisecond)
		waits(t, ended)
		v.speak(0, 1)
		time.Sleep(time.Second)
		release(t, granted(t, ended))
	}, timeout(50*time.Millisecond))
}

// The goal: a call may ask for more time than the lease before it has left. Then the nodes grant it
// a lease of its own, behind the release.
func TestAsync_ACallThatWantsMoreTimeAsksTheNodes(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		held := v.hold(t, c, "k", lockpipe.WithTTL(time.Second))
		ended := async(t.Context(), t, c, []string{"k"}, lockpipe.WithTTL(20*time.Second))
		start := time.Now()
		release(t, held)
		l := granted(t, ended)
		require.NotEqual(t, held.Token(), l.Token())
		require.Greater(t, l.Until().Sub(start), 19*time.Second)
		require.Greater(t, v.ttl(0, "k"), 19*time.Second)
		require.Zero(t, c.Stats().Handovers)
		release(t, l)
		v.nothingLeft(t)
	})
}

// The goal: if the nodes do not confirm that extension, the call acquires the keys from them later.
func TestAsync_ACallDiscardsALeaseThatCannotBeExtended(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		held := v.hold(t, c, "k", lockpipe.WithTTL(time.Second))
		ended := async(t.Context(), t, c, []string{"k"}, lockpipe.WithTTL(20*time.Second))
		v.silence(0, 1)
		release(t, held)
		time.Sleep(100 * time.Millisecond)
		waits(t, ended)
		v.speak(0, 1)
		time.Sleep(time.Second)
		l := granted(t, ended)
		require.NotEqual(t, held.Token(), l.Token())
		release(t, l)
	}, timeout(50*time.Millisecond))
}

// The goal: the function may use the client in every way, may panic, and the caller may use the
// slice of keys again.
func TestAsync_DoneMayDoAnything(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		keys := []string{"a", "b"}
		ended := make(chan []string, 1)
		require.NoError(t, c.AcquireAsync(t.Context(), keys, func(l *lockpipe.Lease, err error) {
			if err != nil {
				t.Error(err)
			}
			if _, err := c.TryAcquire(t.Context(), "a"); err == nil {
				t.Error("a second holder")
			}
			other, err := c.Acquire(t.Context(), "c")
			if err != nil || other.Release(t.Context()) != nil || l.Release(t.Context()) != nil {
				t.Error(err)
			}
			ended <- l.Keys()
			panic("on purpose")
		}))
		keys[0], keys[1] = "x", "y"
		synctest.Wait()
		require.Equal(t, []string{"a", "b"}, <-ended)
		require.Equal(t, uint64(1), c.Stats().CallbackPanics)
		require.NoError(t, c.AcquireAsync(t.Context(), []string{"a"}, func(l *lockpipe.Lease,
			err error,
		) {
			if err == nil {
				err = c.Close(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
			ended <- nil
		}))
		synctest.Wait()
		<-ended
		v.nothingLeft(t)
	})
}

// The goal: calls for different keys share their trips to the nodes as concurrent callers do.
func TestAsync_CallsShareTheirFlushes(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		const calls = 1000
		v.latency(time.Millisecond)
		before := c.Stats().Flushes
		ended := make(chan outcome, calls)
		for i := range calls {
			require.NoError(t, c.AcquireAsync(t.Context(), []string{fmt.Sprint("k", i)},
				func(l *lockpipe.Lease, err error) { ended <- outcome{lease: l, err: err} }))
		}
		var leases []*lockpipe.Lease
		for range calls {
			o := <-ended
			require.NoError(t, o.err)
			leases = append(leases, o.lease)
		}
		require.Less(t, c.Stats().Flushes-before, uint64(3*calls/20))
		require.NoError(t, c.ReleaseAll(t.Context(), leases...))
		v.nothingLeft(t)
	})
}

// The goal: a call for another process's key is granted when that lease ends, even if the node that
// the call asks first hangs.
func TestAsync_ACallIsNotStuckAtASilentArbiter(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		held := v.hold(t, v.client(t), "k")
		ended := async(t.Context(), t, c, []string{"k"})
		for judge := range 3 {
			v.silence(judge)
			time.Sleep(150 * time.Millisecond)
			waits(t, ended)
			v.speak(judge)
		}
		v.silence(1)
		require.NoError(t, held.Release(t.Context()))
		time.Sleep(time.Second)
		l := granted(t, ended)
		v.speak(1)
		release(t, l)
	}, timeout(50*time.Millisecond))
}

// The goal: the caller may change its slice as soon as AcquireAsync has returned.
func TestAsync_TheCallerMayChangeItsKeys(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "a")
		for _, keys := range [][]string{{"a"}, {"a", "b", "c"}, {"a", "b", "a", "c"}} {
			want := slices.Compact(slices.Sorted(slices.Values(keys)))
			next := async(t.Context(), t, c, keys)
			overwrite(keys)
			synctest.Wait()
			require.NoError(t, l.Release(t.Context()))
			time.Sleep(time.Second)
			l = granted(t, next)
			require.Equal(t, want, l.Keys())
			for _, k := range want {
				require.Equal(t, l.Token(), v.get(0, k))
			}
		}
		require.NoError(t, l.Release(t.Context()))
		v.nothingLeft(t)
	})
}
