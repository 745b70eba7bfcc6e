package lockpipe_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
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
			v := newFakeNodes(t, 3)
			v.latency(way)
			c := v.client(t)
			l := take(t, c, "k")
			time.Sleep(10 * way)
			ended := later(func() outcome {
				l, err := c.Acquire(t.Context(), "k")
				return outcome{l, err, time.Now()}
			})
			time.Sleep(way / 4)
			start := time.Now()
			release(t, l)
			o := <-ended
			require.NoError(t, o.err)
			// The release, the attempt that fails, and the next one.
			require.LessOrEqual(t, o.at.Sub(start), 7*way)
			release(t, o.lease)
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
				v := newFakeNodes(t, 3)
				v.latency(way)
				c := v.client(t)
				l := take(t, c, "k")
				if queued { // the lease of a call that waited
					next := queue(t, c, "k")
					time.Sleep(100 * time.Millisecond)
					release(t, l)
					l = (<-next).lease
				}
				next := queue(t, c, "k")
				time.Sleep(100 * time.Millisecond)
				go func() { _ = l.Extend(t.Context(), longTTL) }()
				time.Sleep(way / 20)
				start := time.Now()
				release(t, l)
				o := <-next
				require.NoError(t, o.err)
				require.LessOrEqual(t, o.at.Sub(start), 8*way, "queued: %v", queued)
				release(t, o.lease)
			})
		}
	}
}

// The goal: a Release of a lease that is over has no call of the process try for the keys, which
// another process holds.
func TestRelease_ASecondOneSendsNoAttempts(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k")
		release(t, l)
		held := v.hold(t, v.client(t), "k", lockpipe.WithTTL(time.Minute))
		next := queue(t, c, "k")
		before := c.Stats().Attempts
		for range 20 {
			release(t, l)
			synctest.Wait()
		}
		require.Equal(t, before, c.Stats().Attempts)
		release(t, held)
		release(t, (<-next).lease)
	})
}
