package batches

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/check"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// Goal: two batches that have a key at the same time are a violation. Batches of different keys are
// none.
func TestServe_DetectsTwoBatchesOfAKey(t *testing.T) {
	nodes, err := lockpipetest.StartInProcess(1)
	require.NoError(t, err)
	defer func() { require.NoError(t, nodes.Close()) }()
	client, err := lockpipe.New(lockpipe.Config{Nodes: nodes.URLs()})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(context.Background())) }()
	lease, err := client.Acquire(t.Context(), "x")
	require.NoError(t, err)
	for _, second := range [][]int{{2}, {1}} {
		owned := check.NewOwnership(3, time.Now())
		c := New(client, nil, Config{
			Ownership: func() *check.Ownership { return owned }, Hold: 50 * time.Millisecond,
		})
		var both sync.WaitGroup
		for _, keys := range [][]int{{0, 1}, second} {
			both.Go(func() {
				sales, err := c.serve(t.Context(), lease, [][]int{keys})
				if err != nil || len(sales) != 1 {
					t.Error(sales, err)
				}
			})
		}
		both.Wait()
		require.Equal(t, second[0] == 1, owned.Violations() > 0)
		require.Equal(t, &Report{ItemsPerS: 4, Batches: 2, ItemsPerBatch: 1},
			Sum([]*Calls{c}, 2, 500*time.Millisecond))
	}
}
