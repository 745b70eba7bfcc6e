package series

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/servertest"
)

// Goal: what the Clients count between two snapshots is in the interval of the first one, and the
// rest is in the last interval.
func TestPoll_CountsAreAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBuilder()
		b.Start(time.Now())
		var extended atomic.Uint64
		stop := b.poll(func() snapshot {
			n := extended.Load()
			return snapshot{extended: n, nodes: []nodeCounts{{
				address: "a", flushes: 2 * n,
				failures: lockpipe.NodeFailures{Timeout: n},
			}}}
		})
		for _, n := range []uint64{3, 5, 7} {
			extended.Add(n)
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		extended.Add(1)
		stop()
		s := b.Series(time.Since(b.start) + 60*time.Millisecond)
		require.Len(t, s.Intervals, 4)
		for i, want := range []uint64{3, 5, 7, 1} {
			require.Equal(t, want, s.Intervals[i].Extended)
			require.Equal(t, 2*want, s.Nodes[0].FlushesEach[i])
			require.Equal(t, want, s.Nodes[0].FailuresEach[i])
		}
		require.Equal(t, map[string]uint64{"timeout": 16}, s.Nodes[0].Failures)
		NewBuilder().Poll(nil)() // without Clients there is nothing to wait for
	})
}

// Goal: a snapshot adds up all Clients, node by node, and the difference of two is what was counted
// between them.
func TestSnapshot_AddsUpTheClients(t *testing.T) {
	nodes := servertest.Start(t, 3)
	var clients []*lockpipe.Client
	for range 2 {
		client, err := lockpipe.New(lockpipe.Config{
			Nodes: nodes.URLs(), MaxTTL: time.Minute,
			NodeTimeout: 5 * time.Second, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		clients = append(clients, client)
		lease, err := client.Acquire(t.Context(), "key")
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
	}
	first := snapshotOf(clients)
	for _, client := range clients {
		lease, err := client.Acquire(t.Context(), "key")
		require.NoError(t, err)
		require.NoError(t, lease.Extend(t.Context(), 20*time.Second))
		require.NoError(t, lease.Release(t.Context()))
	}
	for _, client := range clients { // nothing is counted after that
		require.NoError(t, client.Close(t.Context()))
	}
	now := snapshotOf(clients)
	require.EqualValues(t, 2, now.extended-first.extended)
	require.Len(t, now.nodes, 3)
	for i, n := range now.nodes {
		a, b := clients[0].Nodes()[i], clients[1].Nodes()[i]
		require.Equal(t, a.Addr, n.address)
		require.NotZero(t, b.Stats.Flushes)
		require.Equal(t, a.Stats.Flushes+b.Stats.Flushes, n.flushes)
		require.Equal(t, a.Stats.Operations+b.Stats.Operations, n.operations)
		require.Equal(t, a.Stats.Connects+b.Stats.Connects, n.connects)
		require.Equal(t, a.Stats.Latency.Plus(b.Stats.Latency), n.latency)
		since := n.since(first.nodes[i])
		require.Equal(t, n.flushes-first.nodes[i].flushes, since.flushes)
		require.Equal(t, n.latency, since.latency.Plus(first.nodes[i].latency))
	}
}
