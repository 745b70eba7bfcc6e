package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// Goal: the checks look at the server that has the slot of a node, wherever it is: they count what
// is left, and find and free what an owner has.
func TestCluster_TheChecksFollowTheSlots_InRealTime(t *testing.T) {
	servertest.RealTime(t)
	cluster := lockpipetest.StartCluster(t)
	all, err := ParseEndpoints(cluster.URL())
	require.NoError(t, err)
	require.Len(t, all, 3)
	slot, inCluster := all[0].Slot()
	require.True(t, inCluster)
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: []string{cluster.URL()}, Owner: "web-1:7", MaxTTL: time.Minute,
		NodeTimeout: 5 * time.Second,
	})
	require.NoError(t, err)
	defer client.Close(t.Context())
	require.NoError(t, client.Ready(t.Context()))
	_, err = client.TryAcquire(t.Context(), "run:1", lockpipe.WithTTL(time.Minute))
	require.NoError(t, err)

	left := func(want int) {
		t.Helper()
		require.Eventually(t, func() bool { // until the slowest node has it
			n, err := LeftoverKeys(t.Context(), all, "run:")
			require.NoError(t, err)
			return n == want
		}, time.Minute, time.Millisecond)
	}
	left(3)
	require.NoError(t, cluster.Failover(slot))
	left(3)
	require.NoError(t, cluster.MoveSlot(slot, slot+6000))
	left(3)
	for i, node := range all {
		found, err := FindOwned(t.Context(), node, "run:")
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, "run:1", found[0].Key)
		freed, err := Free(t.Context(), node, found)
		require.NoError(t, err)
		require.Len(t, freed, 1)
		left(2 - i)
	}
}
