package multiplex

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/stretchr/testify/require"
)

// keptBy has the node keep the release of so many keys, which last for so long.
func keptBy(n *node, keys int, last time.Duration) {
	c, all := new(Claim), make([]string, keys)
	for i := range all {
		all[i] = fmt.Sprint("k", i)
	}
	c.Init("", all, "t")
	c.maxTTLSent, c.acquired = last, n.mux.all()
	n.addPending(n.mux.newAttempt(c, release, 0, time.Second, time.Minute))
}

// The goal: a release that is no longer kept, because its keys have expired or it is sent, takes no
// memory from those that are kept later. One release is kept whatever its size.
func TestPendingReleases_OnlyTheyTakeMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		n := &node{mux: m, link: new(link.Link), pendingAdded: make(chan struct{}, 1)}
		keptBy(n, 3, time.Second)
		keptBy(n, 5, time.Minute)
		require.Equal(t, 8, n.pending.keys)
		require.Empty(t, n.pending.takeExpired(time.Now().Add(time.Second-1)))
		require.Len(t, n.pending.takeExpired(time.Now().Add(time.Second)), 1)
		require.Equal(t, 5, n.pending.keys)
		require.Len(t, n.takePending(), 1)
		require.Zero(t, n.pending.keys)
		keptBy(n, maxPendingReleases+1, time.Minute)
		require.Len(t, n.pending.list, 1)
	})
}

// The goal: pending releases are sent in flushes as large as others are, oldest first, and not all
// at once.
func TestPendingReleases_AreSentAFlushAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		stop()
		n := m.nodes[0]
		var flushes [][]int
		n.sendFlush = answeredBy(func(attempts []*Attempt, answers []answer) {
			var sizes []int
			for i, a := range attempts {
				sizes = append(sizes, a.claim.Len())
				answers[i] = answer{vote: granted, replied: true}
			}
			flushes = append(flushes, sizes)
		})
		for _, keys := range []int{maxFlush - 1, 1, 2, maxFlush - 1, maxFlush + 1, 1} {
			keptBy(n, keys, time.Minute)
		}
		n.resend()
		require.Equal(t, [][]int{{maxFlush - 1, 1}, {2}, {maxFlush - 1}, {maxFlush + 1}, {1}},
			flushes)
		require.Zero(t, m.Nodes()[0].PendingReleases)
	})
}

// The goal: what a node can't answer is bounded, and the oldest is dropped first.
func TestPendingReleases_AreBounded(t *testing.T) {
	n := &node{link: new(link.Link), pendingAdded: make(chan struct{}, 1)}
	keys := make([]string, 1<<14)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	m := &Mux{nodes: []*node{n}}
	var last *Attempt
	for range 100 {
		c := new(Claim)
		c.Init("", keys, "t")
		last = m.newAttempt(c, release, 0, time.Second, time.Second)
		before := n.pending.dropped
		n.addPending(last)
		require.LessOrEqual(t, n.pending.keys, maxPendingReleases)
		if n.pending.dropped > before {
			require.LessOrEqual(t, n.pending.keys, maxPendingReleases*3/4,
				"many at once: the rest is copied")
		}
	}
	require.Same(t, last, n.pending.list[len(n.pending.list)-1].attempt)
	require.Equal(t, uint64(100), n.pending.dropped+uint64(len(n.pending.list)))
	require.Equal(t, Stats{
		DroppedReleases: n.pending.dropped, PendingReleases: len(n.pending.list),
	}, m.Stats())
}

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
		require.Equal(t, Won, release.Wait(t.Context(), time.Now()).Result)
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
		start := time.Now()
		for len(stores[0].left()) > 0 {
			require.Less(t, time.Since(start), 3*resendDelay)
			notify(m.nodes[0].pendingAdded)
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
		m.nodes[0].sendFlush = all(answer{replied: true, leftNothing: true, err: errBroken})
		release := m.Release(c, 1)
		require.ErrorIs(t, wait(release, t.Context()), ErrNoQuorum)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, Won, release.Wait(t.Context(), time.Now()).Result)
		require.Equal(t, uint64(1), m.Nodes()[0].DroppedReleases)
		require.Equal(t, uint64(1), m.Stats().DroppedReleases)
		require.Zero(t, m.Stats().PendingReleases)
		require.NotEmpty(t, stores[0].left(), "it was the clock that said so")
		stop()
	})
}

// The goal: a release is kept until the node answers it when a connection broke before the answer:
// a stopped server may read that connection later than any TTL, and take the key again.
func TestPendingReleases_AreKeptWhileABrokenConnectionMayStillBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(1, 1, 0)
		defer stop()
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Second, 1), t.Context()))
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		var instead atomic.Pointer[answer]
		trip := m.nodes[0].sendFlush
		m.nodes[0].sendFlush = func(f *flush) {
			if r := instead.Load(); r != nil {
				all(*r)(f)
				return
			}
			trip(f)
		}
		instead.Store(&answer{broken: true, err: errBroken})
		require.ErrorIs(t, extends(t, m, c, time.Second), ErrNoQuorum)
		instead.Store(&answer{leftNothing: true, err: link.ErrNotConnected})
		release := m.Release(c, 1)
		require.ErrorIs(t, wait(release, t.Context()), ErrNoQuorum)
		time.Sleep(time.Hour)
		synctest.Wait() // at this moment the connector sends it again
		m.nodes[0].dropExpired()
		require.Equal(t, 1, m.Nodes()[0].PendingReleases)
		require.Zero(t, m.Nodes()[0].DroppedReleases)
		stores[0].hold("k", "t") // the server continues, and reads the extension
		instead.Store(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, stores[0].left())
		require.Equal(t, Won, release.Wait(t.Context(), time.Now()).Result)
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
			m.nodes[0].sendFlush = all(answer{leftNothing: true, err: link.ErrNotConnected})
			require.ErrorIs(t, wait(m.Release(c, 1), t.Context()), ErrNoQuorum)
			time.Sleep(59 * time.Second)
			synctest.Wait() // at this moment the connector sends it again
			m.nodes[0].dropExpired()
			require.Equal(t, 1, m.Nodes()[0].PendingReleases, "%v", ttls)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Zero(t, m.Nodes()[0].PendingReleases, "%v", ttls)
		})
	}
}
