package lockpipetest_test

import (
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// The goal: a cluster is complete at once. Failover, Takeover and MoveSlot change the owner of a
// slot, also at once after another change, and a server that is cut off does not notice.
func TestCluster_ChangesOwners_InRealTime(t *testing.T) {
	servertest.RealTime(t)
	const slot = 2730
	c := lockpipetest.StartCluster(t)
	owner := func(of, want int) {
		t.Helper()
		got, err := c.Owner(of, slot)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	owner(5, 0)
	require.NoError(t, c.Failover(slot))
	owner(5, 3)
	owner(0, 3)
	c.Cut(3, 1)
	require.NoError(t, c.Takeover(slot))
	owner(5, 0)
	owner(3, 3)
	owner(1, 3)
	c.Cut()
	for server := range c.Servers().Len() {
		require.Eventually(t, func() bool {
			now, err := c.Owner(server, slot)
			return err == nil && now == 0
		}, 20*time.Second, 5*time.Millisecond)
	}
	_, err := c.Servers().Do(0, "SET", "{1o5k}key", "value") // which is in the slot
	require.NoError(t, err)
	require.NoError(t, c.MoveSlot(slot, 16000))
	owner(0, 2)
	value, err := c.Servers().Do(2, "GET", "{1o5k}key")
	require.NoError(t, err)
	require.Equal(t, "value", value)
	for _, want := range []int{5, 2} { // there and back
		require.NoError(t, c.Failover(slot))
		owner(0, want)
	}
}
