package multiplex

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/stretchr/testify/require"
)

// hang lets a node answer nothing until the returned function is called.
func hang(n *node.Node) (resume func()) {
	synctest.Wait()
	gate, trip := make(chan struct{}), n.SendFlush
	n.SendFlush = func(f *node.Flush) { <-gate; trip(f) }
	return func() { close(gate) }
}

// nothingLeft waits until everything is released, and requires that no node has a key.
func nothingLeft(t *testing.T, m *Mux, stores []*memoryNode) {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	for i, s := range stores {
		require.Empty(t, s.left(), "node %d", i)
		require.Zero(t, m.Nodes()[i].PendingReleases)
	}
}

// The goal: a split vote is counted once. An attempt that loses to a single other one, or to nodes
// that fail, is not a split vote.
func TestStats_CountSplitVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(5, 1, 0)
		defer stop()
		lose := func(held ...int) {
			for i, s := range stores {
				s.free("k")
				if slices.Contains(held, i) {
					s.hold("k", "another")
				}
			}
			require.Error(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))
			time.Sleep(time.Second)
			synctest.Wait()
		}
		splitVotes := func() uint64 {
			_, split := m.Attempts()
			return split
		}
		lose(0, 1, 2, 3, 4)
		require.Zero(t, splitVotes())
		for _, n := range m.nodes[:3] {
			n.SendFlush = all(node.Answer{LeftNothing: true, Replied: true, Err: errBroken})
		}
		lose(4)
		require.Zero(t, splitVotes(), "one granted, one refused, of three that are needed")
		for i, s := range stores[:3] {
			m.nodes[i].SendFlush = answeredBy(s.flush)
		}
		lose(0, 1, 2)
		require.Equal(t, uint64(1), splitVotes())
	})
}

// The goal: all contenders for a key choose the same arbiter, whatever the order of the nodes. Keys
// are spread over the nodes. A node that is of no use is left out, and so is one that is not
// connected.
func TestArbiter_AllContendersChooseTheSame(t *testing.T) {
	t.Parallel()
	m, _, stop := simulated(5, 1, 0)
	defer stop()
	turned := &Mux{
		nodes:   []*node.Node{m.nodes[4], m.nodes[3], m.nodes[2], m.nodes[1], m.nodes[0]},
		systems: m.systems,
	}
	chosen := map[int]int{}
	for i := range 3000 {
		key := fmt.Sprint("sku:", i)
		arbiter := arbiterOf(m, key, 0)
		require.Equal(t, arbiter, 4-arbiterOf(turned, key, 0))
		chosen[arbiter]++
		next := arbiterOf(m, key, 1)
		require.NotEqual(t, arbiter, next)
		require.Equal(t, arbiter, arbiterOf(m, key, 5))
		m.nodes[arbiter].Link.SetState(link.Down, errBroken)
		require.Equal(t, next, arbiterOf(m, key, 0))
		m.nodes[arbiter].Link.SetState(link.Up, nil)
	}
	require.Len(t, chosen, 5)
	for arbiter, times := range chosen {
		require.InDelta(t, 600, times, 120, "node %d", arbiter)
	}
	for _, n := range m.nodes {
		n.Link.SetState(link.Down, errBroken)
	}
	require.Equal(t, -1, arbiterOf(m, "k", 0))
	for _, n := range m.nodes {
		n.Link.SetState(link.Up, nil)
	}
}

// The goal: Close while many contend leaves no goroutine and no caller.
func TestMux_CloseEndsContenders(t *testing.T) {
	m, _, stop := simulated(3, 1, 0)
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			_ = wait(m.Acquire(claim("k", fmt.Sprint(i)), time.Minute, 1),
				context.Background())
		})
	}
	require.NoError(t, m.log.Close(t.Context()))
	all.Wait()
	for begin := time.Now(); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		require.Less(t, time.Since(begin), patient, "goroutines are left")
	}
	stop()
}

// arbiterOf returns the index of the node that has the line for a key; -1: none is connected.
func arbiterOf(m *Mux, key string, skip int) int { return arbiterIn(m, 0, 0, key, skip) }

func arbiterIn(m *Mux, system uint8, set int, key string, skip int) int {
	lines := m.Arbiter(system, set, key, skip)
	return slices.IndexFunc(m.nodes, func(n *node.Node) bool { return n.Lines == lines })
}
