package leases

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/fence"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: a client whose clock is behind needs one attempt more, in every call, also in one that
// may make only one attempt. It needs none more for the next lease.
func TestFence_AClockThatIsBehindCatchesUpInOneAttempt(t *testing.T) {
	t.Parallel()
	calls := map[string]func(t *testing.T, c *lockpipe.Client) *lockpipe.Lease{
		"try": func(t *testing.T, c *lockpipe.Client) *lockpipe.Lease {
			return kit.Try(t, c, "k",
				lockpipe.WithFencing())
		},
		"wait": func(t *testing.T, c *lockpipe.Client) *lockpipe.Lease {
			return kit.Take(t, c, "k", lockpipe.WithFencing(), lockpipe.WithMaxAttempts(1))
		},
		"async": func(t *testing.T, c *lockpipe.Client) *lockpipe.Lease {
			return kit.Granted(t,
				kit.Async(t.Context(), t, c, []string{"k"}, lockpipe.WithFencing()))
		},
		"each": func(t *testing.T, c *lockpipe.Client) *lockpipe.Lease {
			results := c.TryAcquireEach(t.Context(), []string{"other", "k", "k"},
				lockpipe.WithFencing())
			for _, r := range results {
				require.NoError(t, r.Err)
			}
			require.Same(t, results[1].Lease, results[2].Lease)
			kit.Release(t, results[0].Lease)
			return results[1].Lease
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, ahead *lockpipe.Client) {
				c := v.Shifted(t, -5*time.Minute)
				var seen fence.Checker
				kit.Fenced(t, ahead, &seen, "k")
				began, before := time.Now(), c.Stats().Attempts
				keys := uint64(1)
				if name == "each" {
					keys = 2
				}
				kit.Passed(t, &seen, call(t, c))
				require.Equal(t, before+2*keys, c.Stats().Attempts)
				kit.Passed(t, &seen, call(t, c))
				require.Equal(t, before+3*keys, c.Stats().Attempts)
				require.Zero(t, time.Since(began), "no pause")
				v.OnlyCompanions(t)
			})
		})
	}
}

// The goal: a process that pauses after it has its number asks with a lower one than those granted
// meanwhile. It gets no lease with it, even if all nodes have forgotten these: the time of a lease
// begins before its number is chosen.
func TestFence_APauseBehindTheClockGivesNoOldOne(t *testing.T) {
	t.Parallel()
	calls := map[string]func(ctx context.Context, c *lockpipe.Client) (*lockpipe.Lease, error){
		"try": func(ctx context.Context, c *lockpipe.Client) (*lockpipe.Lease, error) {
			return c.TryAcquire(ctx, "k", lockpipe.WithFencing())
		},
		"each": func(ctx context.Context, c *lockpipe.Client) (*lockpipe.Lease, error) {
			r := c.TryAcquireEach(ctx, []string{"k"}, lockpipe.WithFencing())[0]
			return r.Lease, r.Err
		},
		"wait": func(ctx context.Context, c *lockpipe.Client) (*lockpipe.Lease, error) {
			return c.Acquire(ctx, "k", lockpipe.WithFencing())
		},
		"async": func(ctx context.Context, c *lockpipe.Client) (*lockpipe.Lease, error) {
			return kit.WaitForAsync(c)(ctx, []string{"k"}, lockpipe.WithFencing())
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
				paused := v.Client(t)
				var once atomic.Bool
				kit.BehindClock(paused, func() {
					if !once.Swap(true) {
						time.Sleep(3 * time.Minute)
					}
				})
				got := kit.Later(func() kit.Outcome {
					l, err := call(t.Context(), paused)
					return kit.Outcome{Lease: l, Err: err}
				})
				time.Sleep(time.Second)
				l := v.Hold(t, c, "k", lockpipe.WithFencing())
				kit.Release(t, l)
				synctest.Wait()
				for i := range v.Nodes {
					v.ForgetFence(i, "k")
				}
				o := <-got
				if o.Err != nil {
					require.ErrorIs(t, o.Err, lockpipe.ErrNoQuorum)
					return
				}
				require.Greater(t, o.Lease.Fence(), l.Fence())
				kit.Release(t, o.Lease)
			})
		})
	}
}

// The goal: keys granted with too low a fence have to be deleted first, and nodes hang.
// TryAcquireEach waits for that once for all of its keys, and makes one attempt more. Each attempt
// takes NodeTimeout, and the wait far less: these nodes owe an answer already.
func TestFence_ManyStaleKeysWaitTogether(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys, others := kit.KeysOf("k", 100), kit.KeysOf("other", 100)
		for _, k := range keys {
			for i := range 2 {
				v.SetFence(i, k, strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(),
					10))
			}
		}
		v.Fail(2, kit.ReadOnly)
		v.Silence(3, 4)
		timed := func(keys []string, opts ...lockpipe.Option) time.Duration {
			began := time.Now()
			for _, r := range c.TryAcquireEach(t.Context(), keys, opts...) {
				require.ErrorIs(t, r.Err, lockpipe.ErrNoQuorum)
			}
			return time.Since(began)
		}
		before := c.Stats().Attempts
		together := timed(keys, lockpipe.WithFencing())
		require.Less(t, together, 3*timed(others))
		require.LessOrEqual(t, c.Stats().Attempts, before+300)
	}, kit.Timeout(50*time.Millisecond))
}

// The goal: others with a faster clock acquire the keys again and again. A call tries again at
// once, three times.
func TestFence_ACallThatStaysBehindGivesUp(t *testing.T) {
	t.Parallel()
	const attempts = 4
	for stale := 1; stale <= 2; stale++ {
		kit.InBubble(t, 2, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			higher := time.Now().Add(time.Hour).UnixMicro()
			kit.BehindClock(c, func() {
				higher += 10
				for i := range stale {
					v.SetFence(i, "k", strconv.FormatInt(higher, 10))
					v.SetFence(i, "other", strconv.FormatInt(higher, 10))
				}
			})
			_, err := c.TryAcquire(t.Context(), "k", lockpipe.WithFencing())
			require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
			require.EqualValues(t, attempts, c.Stats().Attempts)
			err = c.TryAcquireEach(t.Context(), []string{"other"}, lockpipe.WithFencing())[0].Err
			require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
			require.EqualValues(t, 2*attempts, c.Stats().Attempts)
			v.OnlyCompanions(t)
		})
	}
}

// The goal: a fence that one node has seen does not raise the fence of a call that waits for
// another's lease.
func TestFence_AStaleMinorityDoesNotDragAWaitingCall(t *testing.T) {
	kit.SkipIfShort(t, "fenced calls that wait next to a stale minority")
	t.Parallel()
	kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		held := v.Hold(t, v.Client(t), "k", lockpipe.WithFencing())
		v.Del(0, "k")
		v.SetFence(0, "k", "4102444800000000")
		waiting := kit.Queue(t, c, "k", lockpipe.WithFencing())
		time.Sleep(10 * time.Second)
		kit.Release(t, held)
		time.Sleep(10 * time.Second)
		l := kit.Granted(t, waiting)
		require.Less(t, l.Fence(), time.Now().UnixMicro())
		kit.Release(t, l)
		v.OnlyCompanions(t)
	})
}

// The goal: TryAcquireEach also acquires keys that only the release of its own first attempt keeps
// from it, each with a fence of its own.
func TestFence_HalfOfTheNodesAreStaleForManyKeys(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 2, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys := kit.KeysOf("k", 100)
		ahead := time.Now().Add(time.Hour).UnixMicro()
		for i, k := range keys {
			v.SetFence(i%2, k, strconv.FormatInt(ahead+int64(1000*i), 10))
		}
		for i, r := range c.TryAcquireEach(t.Context(), keys, lockpipe.WithFencing()) {
			require.NoError(t, r.Err)
			require.Equal(t, ahead+int64(1000*i)+1, r.Lease.Fence())
			kit.Release(t, r.Lease)
		}
		require.Equal(t, uint64(200), c.Stats().Attempts)
		v.OnlyCompanions(t)
	})
}

// The goal: nodes of a minority that have seen more neither keep anybody from a lease nor cost an
// attempt.
func TestFence_AStaleMinorityDoesNotMatter(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		for i := range 2 {
			v.SetFence(i, "k", strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(),
				10))
		}
		l := kit.Try(t, c, "k", lockpipe.WithFencing())
		require.Equal(t, time.Now().UnixMicro(), l.Fence())
		require.Equal(t, uint64(1), c.Stats().Attempts)
		synctest.Wait()
		kit.Release(t, l)
		v.OnlyCompanions(t)
	})
}

// The goal: half of an even number of nodes is stale and no quorum. The client first deletes what
// the others granted, so that the next attempt does not find it.
func TestFence_ACatchUpIsBehindWhatItLeft(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 4} {
		kit.InBubble(t, n, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			for i := range n / 2 {
				v.SetFence(i, "k:0",
					strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10))
			}
			v.Silence(kit.Span(n/2, n)...) // what they grant late would be in the way
			taken := kit.Later(func() kit.Outcome {
				// Enough to leave during a flush under way.
				l, err := c.TryAcquireAll(t.Context(), kit.KeysOf("k", 100), lockpipe.WithFencing())
				return kit.Outcome{Lease: l, Err: err}
			})
			synctest.Wait()
			v.Speak(kit.Span(n/2, n)...)
			l := kit.Granted(t, taken)
			require.Greater(t, l.Fence(), time.Now().Add(time.Hour).UnixMicro())
			require.Equal(t, uint64(2), c.Stats().Attempts)
			kit.Release(t, l)
			v.OnlyCompanions(t)
		})
	}
}

// The goal: some nodes may still grant what the call gave up. The next attempt reaches each of them
// behind the release of that. Otherwise it would find its own caller there.
func TestFence_ACatchUpIsBehindWhatMayStillBeGranted(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		for i := range 2 {
			v.SetFence(i, "k:0", strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(),
				10))
		}
		v.Fail(2, kit.ReadOnly)
		v.Silence(3, 4)
		taken := kit.Later(func() kit.Outcome {
			// Enough to leave during a flush under way.
			l, err := c.TryAcquireAll(t.Context(), kit.KeysOf("k", 100), lockpipe.WithFencing())
			return kit.Outcome{Lease: l, Err: err}
		})
		synctest.Wait()
		v.Speak(3, 4)
		l := kit.Granted(t, taken)
		require.Greater(t, l.Fence(), time.Now().Add(time.Hour).UnixMicro())
		require.Equal(t, uint64(2), c.Stats().Attempts)
		kit.Release(t, l)
		v.OnlyCompanions(t)
	})
	kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys := kit.KeysOf("k", 100)
		for _, k := range keys {
			for i := range 2 {
				v.SetFence(i, k, strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(),
					10))
			}
		}
		v.Fail(2, kit.ReadOnly)
		v.Silence(3, 4)
		taken := kit.Later(func() []lockpipe.Result {
			return c.TryAcquireEach(t.Context(), keys,
				lockpipe.WithFencing())
		})
		synctest.Wait()
		v.Speak(3, 4)
		for _, r := range <-taken {
			require.NoError(t, r.Err)
			kit.Release(t, r.Lease)
		}
		require.Equal(t, uint64(200), c.Stats().Attempts)
		v.OnlyCompanions(t)
	})
}
