package lockpipe_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// The goal: processes that want the same key all the time get it in turn: none takes it again and again while others wait, few of their
// attempts are in vain, and their votes are hardly ever split.
func TestProcessesTakeTurns(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	const processes, turns = 8, 600
	var clients []*lockpipe.Client
	for range processes {
		clients = append(clients, connected(t, newClient(t, nodes)))
	}
	var taken atomic.Int64
	shares := make([]int, processes)
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for taken.Load() < turns {
				l, err := c.Acquire(t.Context(), "hot")
				if err != nil {
					t.Error(err)
					return
				}
				shares[i]++
				taken.Add(1)
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var attempts, splits uint64
	for _, c := range clients {
		attempts += c.Stats().Attempts
		splits += c.Stats().Splits
	}
	t.Logf("shares %v, %d attempts, %d splits", shares, attempts, splits)
	for _, share := range shares {
		require.Greater(t, share, turns/processes/10)
	}
	require.Less(t, attempts, uint64(5*turns))
	nothingLeft(t, nodes)
}
