package calls

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: calls for one key are granted, and their functions called, in the order of the calls,
// and only the first of them asks the nodes.
func TestAsync_CallsAreGrantedInOrder(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		const calls = 50
		held := v.Hold(t, c, "k")
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
		kit.Release(t, held)
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, order, calls)
		require.True(t, slices.IsSorted(order), "%v", order)
		v.NothingLeft(t)
	})
}

// The goal: calls that were made before anything is known of the key do not all ask the nodes.
func TestAsync_CallsOfOneKeyAreNoHerd(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		var calls []<-chan kit.Outcome
		for range 100 {
			ended := make(chan kit.Outcome, 1)
			require.NoError(t, c.AcquireAsync(t.Context(), []string{"k"}, func(l *lockpipe.Lease,
				err error,
			) {
				ended <- kit.Outcome{Lease: l, Err: err}
			}))
			calls = append(calls, ended)
		}
		for i, ended := range calls {
			l := kit.Granted(t, ended)
			for _, other := range calls[i+1:] {
				kit.Waits(t, other)
			}
			kit.Release(t, l)
		}
		require.Less(t, c.Stats().Attempts, uint64(10))
		v.NothingLeft(t)
	})
}

// The goal: calls whose ctx ends leave the queue, and their functions get the error that AcquireAll
// would return.
func TestAsync_FunctionsGetTheErrorsOfAcquireAll(t *testing.T) {
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		held := v.Hold(t, c, "k")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := kit.Async(ctx, t, c, []string{"k"})
		var all []<-chan kit.Outcome
		for range 1000 {
			all = append(all, kit.Async(ctx, t, c, []string{"k"}))
		}
		kit.Release(t, held)
		l := kit.Granted(t, first)
		require.Equal(t, []string{"k"}, l.Keys())
		cancel()
		for _, ended := range all {
			synctest.Wait()
			o := <-ended
			require.ErrorIs(t, o.Err, lockpipe.ErrHeld)
			require.ErrorIs(t, o.Err, context.Canceled)
			require.Nil(t, o.Lease)
		}
		kit.Release(t, l)
	})
}

// The goal: AcquireAsync returns at once what is wrong with a call, and does not call its function
// then.
func TestAsync_ACallThatIsRefusedIsNotDone(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, _ *kit.FakeNodes, c *lockpipe.Client) {
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
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		held := v.Hold(t, c, "k")
		short, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		first := kit.Async(short, t, c, []string{"k"})
		second := kit.Async(t.Context(), t, c, []string{"k"})
		start := time.Now()
		o := <-first
		require.ErrorIs(t, o.Err, lockpipe.ErrHeld)
		require.ErrorIs(t, o.Err, context.DeadlineExceeded)
		require.LessOrEqual(t, o.At.Sub(start), 30*time.Millisecond)
		kit.Waits(t, second)
		kit.Release(t, held)
		kit.Release(t, kit.Granted(t, second))
		v.NothingLeft(t)
	})
}

// The goal: Close ends the calls that wait, and leaves nothing.
func TestAsync_CloseEndsCalls(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		v.Hold(t, v.Client(t), "k")
		var all []<-chan kit.Outcome
		for _, keys := range [][]string{{"k"}, {"k"}, {"k", "l"}} {
			all = append(all, kit.Async(t.Context(), t, c, keys))
		}
		start := time.Now()
		require.NoError(t, c.Close(t.Context()))
		for _, ended := range all {
			o := <-ended
			require.ErrorIs(t, o.Err, lockpipe.ErrClosed)
			require.Nil(t, o.Lease)
			require.Less(t, o.At.Sub(start), time.Millisecond)
		}
	})
}

// The goal: a call may be closed while its attempt is under way: nothing is left then.
func TestAsync_CloseWhileAnAttemptIsUnderWay(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		v.Silence(0, 1)
		ended := kit.Async(t.Context(), t, c, []string{"k"})
		closed := kit.Later(func() error { return c.Close(t.Context()) })
		synctest.Wait()
		v.Speak(0, 1)
		require.NoError(t, <-closed)
		o := <-ended
		if o.Err == nil {
			require.ErrorIs(t, o.Lease.Err(), lockpipe.ErrClosed)
		} else {
			require.ErrorIs(t, o.Err, lockpipe.ErrClosed)
		}
		v.NothingLeft(t)
	}, kit.Timeout(50*time.Millisecond))
}

// The goal: if no quorum answers, the call is not stuck. Its attempt ends after NodeTimeout, and
// the next one follows.
func TestAsync_ACallOutlastsNodesThatHang(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		v.Silence(0, 1)
		start := time.Now()
		once := <-kit.Async(t.Context(), t, c, []string{"k"}, lockpipe.WithMaxAttempts(1))
		require.ErrorIs(t, once.Err, lockpipe.ErrNoQuorum)
		require.Equal(t, 50*time.Millisecond, once.At.Sub(start).Truncate(time.Millisecond))
		ended := kit.Async(t.Context(), t, c, []string{"k"})
		time.Sleep(200 * time.Millisecond)
		kit.Waits(t, ended)
		v.Speak(0, 1)
		time.Sleep(time.Second)
		kit.Release(t, kit.Granted(t, ended))
	}, kit.Timeout(50*time.Millisecond))
}

// The goal: a call may ask for more time than the lease before it has left. Then the nodes grant it
// a lease of its own, behind the release.
func TestAsync_ACallThatWantsMoreTimeAsksTheNodes(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		held := v.Hold(t, c, "k", lockpipe.WithTTL(time.Second))
		ended := kit.Async(t.Context(), t, c, []string{"k"}, lockpipe.WithTTL(20*time.Second))
		start := time.Now()
		kit.Release(t, held)
		l := kit.Granted(t, ended)
		require.NotEqual(t, held.Token(), l.Token())
		require.Greater(t, l.Until().Sub(start), 19*time.Second)
		require.Greater(t, v.Ttl(0, "k"), 19*time.Second)
		require.Zero(t, c.Stats().Handovers)
		kit.Release(t, l)
		v.NothingLeft(t)
	})
}

// The goal: if the nodes do not confirm that extension, the call acquires the keys from them later.
func TestAsync_ACallDiscardsALeaseThatCannotBeExtended(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		held := v.Hold(t, c, "k", lockpipe.WithTTL(time.Second))
		ended := kit.Async(t.Context(), t, c, []string{"k"}, lockpipe.WithTTL(20*time.Second))
		v.Silence(0, 1)
		kit.Release(t, held)
		time.Sleep(100 * time.Millisecond)
		kit.Waits(t, ended)
		v.Speak(0, 1)
		time.Sleep(time.Second)
		l := kit.Granted(t, ended)
		require.NotEqual(t, held.Token(), l.Token())
		kit.Release(t, l)
	}, kit.Timeout(50*time.Millisecond))
}

// The goal: the function may use the client in every way, may panic, and the caller may use the
// slice of keys again.
func TestAsync_DoneMayDoAnything(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
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
		v.NothingLeft(t)
	})
}

// The goal: calls for different keys share their trips to the nodes as concurrent callers do.
func TestAsync_CallsShareTheirFlushes(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		const calls = 1000
		v.Latency(time.Millisecond)
		before := c.Stats().Flushes
		ended := make(chan kit.Outcome, calls)
		for i := range calls {
			require.NoError(t, c.AcquireAsync(t.Context(), []string{fmt.Sprint("k", i)},
				func(l *lockpipe.Lease, err error) { ended <- kit.Outcome{Lease: l, Err: err} }))
		}
		var leases []*lockpipe.Lease
		for range calls {
			o := <-ended
			require.NoError(t, o.Err)
			leases = append(leases, o.Lease)
		}
		require.Less(t, c.Stats().Flushes-before, uint64(3*calls/20))
		require.NoError(t, c.ReleaseAll(t.Context(), leases...))
		v.NothingLeft(t)
	})
}

// The goal: a call for another process's key is granted when that lease ends, even if the node that
// the call asks first hangs.
func TestAsync_ACallIsNotStuckAtASilentArbiter(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		held := v.Hold(t, v.Client(t), "k")
		ended := kit.Async(t.Context(), t, c, []string{"k"})
		for judge := range 3 {
			v.Silence(judge)
			time.Sleep(150 * time.Millisecond)
			kit.Waits(t, ended)
			v.Speak(judge)
		}
		v.Silence(1)
		require.NoError(t, held.Release(t.Context()))
		time.Sleep(time.Second)
		l := kit.Granted(t, ended)
		v.Speak(1)
		kit.Release(t, l)
	}, kit.Timeout(50*time.Millisecond))
}

// The goal: the caller may change its slice as soon as AcquireAsync has returned.
func TestAsync_TheCallerMayChangeItsKeys(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "a")
		for _, keys := range [][]string{{"a"}, {"a", "b", "c"}, {"a", "b", "a", "c"}} {
			want := slices.Compact(slices.Sorted(slices.Values(keys)))
			next := kit.Async(t.Context(), t, c, keys)
			overwrite(keys)
			synctest.Wait()
			require.NoError(t, l.Release(t.Context()))
			time.Sleep(time.Second)
			l = kit.Granted(t, next)
			require.Equal(t, want, l.Keys())
			for _, k := range want {
				require.Equal(t, l.Token(), v.Get(0, k))
			}
		}
		require.NoError(t, l.Release(t.Context()))
		v.NothingLeft(t)
	})
}
