package node

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// keep has the node keep the release of this many keys, which last for this time.
func keep(n *Node, keys int, last time.Duration) *fake {
	all := make([]string, keys)
	for i := range all {
		all[i] = fmt.Sprint("k", i)
	}
	o := wanting(Release, 0, all...)
	o.until = time.Now().Add(last)
	n.AddPending(o)
	return o
}

// The goal: a release that is no longer kept, because its keys have expired or it is sent, takes no
// memory from those that are kept later. One release is kept whatever its size.
func TestPendingReleases_OnlyTheyTakeMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		keep(n, 3, time.Second)
		keep(n, 5, time.Minute)
		require.Equal(t, 8, n.pending.weight)
		time.Sleep(time.Second - 1)
		n.NotConnected()
		require.Equal(t, 8, n.pending.weight)
		time.Sleep(time.Nanosecond)
		n.NotConnected()
		require.Equal(t, 5, n.pending.weight)
		require.Len(t, n.takePending(), 1)
		require.Zero(t, n.pending.weight)
		keep(n, maxPendingReleases+1, time.Minute)
		require.Len(t, n.pending.list, 1)
	})
}

// The goal: what a node can't answer is bounded, and the oldest is dropped first.
func TestPendingReleases_AreBounded(t *testing.T) {
	const releases = 40 // of which 16 fill the list
	n := newNode()
	for range releases {
		before := n.pending.dropped
		last := keep(n, 1<<14, time.Minute)
		require.LessOrEqual(t, n.pending.weight, maxPendingReleases)
		if n.pending.dropped > before {
			require.LessOrEqual(t, n.pending.weight, maxPendingReleases*3/4,
				"many at once: the rest is copied")
		}
		require.Same(t, last, n.pending.list[len(n.pending.list)-1])
	}
	kept, dropped := n.PendingReleases()
	require.Equal(t, releases, kept+int(dropped))
}

// The goal: pending releases are sent in flushes as large as others are, oldest first, and not all
// at once. Each gets its answer.
func TestPendingReleases_AreSentAFlushAtATime(t *testing.T) {
	n := newNode()
	var flushes [][]int
	n.SendFlush = answeredBy(func(operations []Operation, answers []Answer) {
		var sizes []int
		for i, o := range operations {
			sizes = append(sizes, o.Op().Keys.Len())
			answers[i] = Answer{Vote: Granted, Replied: true}
		}
		flushes = append(flushes, sizes)
	})
	var kept []*fake
	for _, keys := range []int{MaxFlush - 1, 1, 2, MaxFlush - 1, MaxFlush + 1, 1} {
		kept = append(kept, keep(n, keys, time.Minute))
	}
	n.Resend()
	require.Equal(t, [][]int{{MaxFlush - 1, 1}, {2}, {MaxFlush - 1}, {MaxFlush + 1}, {1}}, flushes)
	require.Empty(t, n.pending.list)
	for _, o := range kept {
		require.Equal(t, []Answer{{Vote: Granted, Replied: true}}, o.recorded)
	}
}

// The goal: a release whose keys have expired is confirmed by that, and dropped. It is kept if it
// is not known when they expire.
func TestPendingReleases_AreDroppedWhenTheirKeysHaveExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		expired, later := keep(n, 1, time.Second), keep(n, 1, time.Minute)
		untilAnswered := wanting(Release, 0, "k")
		n.AddPending(untilAnswered)
		time.Sleep(time.Second)
		n.NotConnected()
		require.Equal(t, []Answer{{Vote: Granted}}, expired.recorded)
		require.Equal(t, []Operation{later, untilAnswered}, n.pending.list)
		kept, dropped := n.PendingReleases()
		require.Equal(t, 2, kept)
		require.Equal(t, uint64(1), dropped)
	})
}

// The goal: a release that an error answered is sent again after a while, and a release that the
// node has missed at once. Those that have no answer yet are reported too.
func TestPendingReleases_AreSentAgainAfterAWhileOrAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		refuses := true
		n.SendFlush = answeredBy(func(_ []Operation, answers []Answer) {
			kept, _ := n.PendingReleases()
			require.Equal(t, 1, kept)
			for i := range answers {
				answers[i] = Answer{Vote: Granted, Replied: true}
				if refuses {
					answers[i] = Answer{Replied: true, Err: errors.New("ERR")}
				}
			}
		})
		n.duties.review = time.Now().Add(time.Hour) // as Connected sets it
		o := keep(n, 1, time.Minute)
		require.Equal(t, resendDelay, n.Work(t.Context()))
		n.SendPending()
		require.Zero(t, n.Work(t.Context()))
		require.Len(t, o.recorded, 1)
		n.AddPending(o) // as its Record does
		require.Equal(t, resendDelay, n.Work(t.Context()))
		refuses = false
		time.Sleep(resendDelay)
		require.Zero(t, n.Work(t.Context()))
		require.Len(t, o.recorded, 2)
		kept, _ := n.PendingReleases()
		require.Zero(t, kept)
		require.Equal(t, time.Hour-resendDelay, n.Work(t.Context()))
	})
}
