package leases

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: a call whose attempt is under way while the key is released in its own process tries
// again at once, although the nodes of this test push no changes. It does not wait for its retry
// delay of 10 ms and more.
func TestWait_AReleaseDuringTheAttempt(t *testing.T) {
	t.Parallel()
	const way = 2 * time.Millisecond // the longest, to a node
	for range 40 {
		synctest.Test(t, func(t *testing.T) {
			v := kit.NewFakeNodes(t, 3)
			v.Latency(way)
			c := v.Client(t)
			l := kit.Take(t, c, "k")
			time.Sleep(10 * way)
			ended := kit.Later(func() kit.Outcome {
				l, err := c.Acquire(t.Context(), "k")
				return kit.OutcomeNow(l, err)
			})
			time.Sleep(way / 4)
			start := time.Now()
			kit.Release(t, l)
			o := <-ended
			require.NoError(t, o.Err)
			// The release, the attempt that fails, and the next one.
			require.LessOrEqual(t, o.At.Sub(start), 7*way)
			kit.Release(t, o.Lease)
		})
	}
}

// The goal: if an extension is under way, the release comes behind it, and the next call's attempt
// may overtake both. Then the call tries again when the release is confirmed.
func TestWait_AReleaseBehindAnExtension(t *testing.T) {
	t.Parallel()
	const way = 2 * time.Millisecond
	for _, queued := range []bool{false, true} {
		for range 40 {
			synctest.Test(t, func(t *testing.T) {
				v := kit.NewFakeNodes(t, 3)
				v.Latency(way)
				c := v.Client(t)
				l := kit.Take(t, c, "k")
				if queued { // the lease of a call that waited
					next := kit.Queue(t, c, "k")
					time.Sleep(100 * time.Millisecond)
					kit.Release(t, l)
					l = (<-next).Lease
				}
				next := kit.Queue(t, c, "k")
				time.Sleep(100 * time.Millisecond)
				go func() { _ = l.Extend(t.Context(), kit.LongTTL) }()
				time.Sleep(way / 20)
				start := time.Now()
				kit.Release(t, l)
				o := <-next
				require.NoError(t, o.Err)
				require.LessOrEqual(t, o.At.Sub(start), 8*way, "queued: %v", queued)
				kit.Release(t, o.Lease)
			})
		}
	}
}

// The goal: a Release of a lease that is over has no call of the process try for the keys, which
// another process holds.
func TestRelease_ASecondOneSendsNoAttempts(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k")
		kit.Release(t, l)
		held := v.Hold(t, v.Client(t), "k", lockpipe.WithTTL(time.Minute))
		next := kit.Queue(t, c, "k")
		before := c.Stats().Attempts
		for range 20 {
			kit.Release(t, l)
			synctest.Wait()
		}
		require.Equal(t, before, c.Stats().Attempts)
		kit.Release(t, held)
		kit.Release(t, (<-next).Lease)
	})
}
