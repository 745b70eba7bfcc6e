package multiplex

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/stretchr/testify/require"
)

// The goal: a release that was confirmed in the background is reported at once when Wait is called
// again.
func TestPendingReleases_AConfirmedReleaseIsReportedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(1, 1, 0)
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		stores[0].fail(1)
		release := m.Release(c, 1)
		require.ErrorIs(t, wait(release, t.Context()), ErrNoQuorum)
		stores[0].fail(0)
		time.Sleep(time.Second)
		synctest.Wait()
		start := time.Now()
		require.Equal(t, Won, release.Wait(t.Context()).Result)
		require.Zero(t, time.Since(start))
		stop()
	})
}

// The goal: releases that are kept again and again do not delay the one that can be answered.
func TestPendingReleases_NewOnesDoNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(1, 1, 0)
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		stores[0].fail(1)
		release := m.Release(c, 1)
		require.ErrorIs(t, wait(release, t.Context()), ErrNoQuorum)
		stores[0].fail(0)
		const resendDelay = 100 * time.Millisecond
		start := time.Now()
		for len(stores[0].left()) > 0 {
			require.Less(t, time.Since(start), 3*resendDelay)
			another := m.newAttempt(claim("l", "t"), node.Release, 0, time.Second, time.Minute)
			m.nodes[0].AddPending((*operation)(another))
			time.Sleep(resendDelay / 4)
			synctest.Wait()
		}
		stop()
	})
}

// The goal: a release whose keys have expired is confirmed by that.
func TestPendingReleases_AreConfirmedByTheExpiryOfTheirKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(1, 1, 0)
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Second, 1), t.Context()))
		m.nodes[0].SendFlush = all(node.Answer{Replied: true, LeftNothing: true, Err: errBroken})
		release := m.Release(c, 1)
		require.ErrorIs(t, wait(release, t.Context()), ErrNoQuorum)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, Won, release.Wait(t.Context()).Result)
		require.Equal(t, uint64(1), m.Nodes()[0].DroppedReleases)
		require.Zero(t, m.Nodes()[0].PendingReleases)
		require.NotEmpty(t, stores[0].left(), "it was the clock that said so")
		stop()
	})
}

// The goal: a release is kept until the node answers it when a connection broke before the answer:
// a stopped server may read that connection later than any TTL, and take the key again.
func TestPendingReleases_AreKeptWhileABrokenConnectionMayStillBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(1, 1, 0)
		defer stop()
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Second, 1), t.Context()))
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		var instead atomic.Pointer[node.Answer]
		trip := m.nodes[0].SendFlush
		m.nodes[0].SendFlush = func(f *node.Flush) {
			if r := instead.Load(); r != nil {
				all(*r)(f)
				return
			}
			trip(f)
		}
		instead.Store(&node.Answer{Broken: true, Err: errBroken})
		require.ErrorIs(t, extends(t, m, c, time.Second), ErrNoQuorum)
		instead.Store(&node.Answer{LeftNothing: true, Err: link.ErrNotConnected})
		release := m.Release(c, 1)
		require.ErrorIs(t, wait(release, t.Context()), ErrNoQuorum)
		time.Sleep(time.Hour)
		synctest.Wait() // at this moment the connector sends it again
		m.nodes[0].NotConnected()
		require.Equal(t, 1, m.Nodes()[0].PendingReleases)
		require.Zero(t, m.Nodes()[0].DroppedReleases)
		stores[0].hold("k", "t") // the server continues, and reads the extension
		instead.Store(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, stores[0].left())
		require.Equal(t, Won, release.Wait(t.Context()).Result)
	})
}

// The goal: a release is kept for the longest TTL of all that were sent, whichever came last.
func TestPendingReleases_AreKeptForTheLongestTTL(t *testing.T) {
	for _, ttls := range [][]time.Duration{{time.Second, time.Minute}, {time.Minute, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			m, _, stop := simulated(1, 1, 0)
			defer stop()
			c := claim("k", "t")
			require.NoError(t, wait(m.Acquire(c, ttls[0], 1), t.Context()))
			require.NoError(t, extends(t, m, c, ttls[1]))
			m.nodes[0].SendFlush = all(node.Answer{LeftNothing: true, Err: link.ErrNotConnected})
			require.ErrorIs(t, wait(m.Release(c, 1), t.Context()), ErrNoQuorum)
			time.Sleep(59 * time.Second)
			synctest.Wait() // at this moment the connector sends it again
			m.nodes[0].NotConnected()
			require.Equal(t, 1, m.Nodes()[0].PendingReleases, "%v", ttls)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Zero(t, m.Nodes()[0].PendingReleases, "%v", ttls)
		})
	}
}
