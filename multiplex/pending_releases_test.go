package multiplex

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// keptBy has the node keep the release of so many keys, which last for so long.
func keptBy(n *node, keys int, last time.Duration) {
	c, all := new(Claim), make([]string, keys)
	for i := range all {
		all[i] = fmt.Sprint("k", i)
	}
	c.Init("", all, "t")
	c.maxTTLSent = last
	n.addPending(n.mux.newAttempt(c, release, 0, time.Second, time.Minute))
}

// The goal: a release that is no longer kept, because its keys have expired or it is sent, takes no
// memory from those that are kept later. One release is kept whatever its size.
func TestPendingReleases_OnlyTheyTakeMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		n := &node{mux: m, pendingAdded: make(chan struct{}, 1)}
		keptBy(n, 3, time.Second)
		keptBy(n, 5, time.Minute)
		require.Equal(t, 8, n.pending.keys)
		require.Empty(t, n.takeExpired(time.Now().Add(time.Second-1)))
		require.Len(t, n.takeExpired(time.Now().Add(time.Second)), 1)
		require.Equal(t, 5, n.pending.keys)
		require.Len(t, n.takeAllPending(), 1)
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
		n.sendFlush = func(attempts []*Attempt, answers []answer) {
			var sizes []int
			for i, a := range attempts {
				sizes = append(sizes, a.claim.Len())
				answers[i] = answer{vote: granted, replied: true}
			}
			flushes = append(flushes, sizes)
		}
		for _, keys := range []int{maxFlush - 1, 1, 2, maxFlush - 1, maxFlush + 1, 1} {
			keptBy(n, keys, time.Minute)
		}
		n.resend()
		require.Equal(t, [][]int{{maxFlush - 1, 1}, {2}, {maxFlush - 1}, {maxFlush + 1}, {1}},
			flushes)
		require.Zero(t, m.Nodes()[0].PendingReleases)
	})
}
