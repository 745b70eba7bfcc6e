package lockpipe_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// unsaved is what a server answers whose last snapshot failed.
const unsaved = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable " +
	"to persist to disk."

// The goal: a node that answers acquires with errors for a second is shown as failing, in the
// metrics and once in the log, and is no spare. When it is well, it is up without any call.
func TestAFailingNodeIsNoSpare(t *testing.T) {
	var log lockedBuffer
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		shows := func(state string, spare float64) {
			t.Helper()
			got := scrape(t, c)
			for _, s := range []string{"connecting", "up", "quarantined", "down", "failing"} {
				want := 0.0
				if s == state {
					want = 1
				}
				require.InDelta(t, want, got[`lockpipe_node_state{node="node-0:6379",state="`+s+
					`"}`], 0, s)
			}
			require.InDelta(t, spare, got["lockpipe_spare_nodes"], 0)
		}
		shows("up", 1)
		v.fail(0, unsaved)
		for range 40 {
			require.NoError(t, try(t, c, "k").Release(t.Context()))
			time.Sleep(50 * time.Millisecond)
		}
		shows("failing", 0)
		require.EqualError(t, c.Nodes()[0].Err, unsaved)
		require.Equal(t, "failing", c.Nodes()[0].State.String())
		v.heal(0)
		time.Sleep(time.Second)
		shows("up", 1)
		require.Len(t, linesWith(&log, "node is failing"), 1)
		require.Len(t, linesWith(&log, "node is up"), 4)
		time.Sleep(time.Second) // for the releases that were kept
		v.nothingLeft(t)
	}, logTo(&log))
}

// The goal: a waiting call outlasts a majority that fails or was demoted, and gets its lease when
// the nodes are well, also if nobody else calls.
func TestAWaitingCallOutlastsNodesThatCannotBeUsed(t *testing.T) {
	for says, state := range map[string]lockpipe.NodeState{
		unsaved: lockpipe.NodeFailing, readOnly: lockpipe.NodeDown,
	} {
		inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
			v.fail(0, says)
			v.fail(1, says)
			got := wanted(t, c, []string{"k"})
			time.Sleep(10 * time.Second)
			synctest.Wait()
			require.Equal(t, state, c.Nodes()[0].State)
			require.Equal(t, state, c.Nodes()[1].State)
			require.ErrorContains(t, c.Nodes()[0].Err, says)
			require.Empty(t, got)
			v.heal(0, 1)
			time.Sleep(2 * time.Second)
			require.True(t, allUp(c))
			require.Len(t, got, 1)
			l := <-got
			require.NotNil(t, l)
			require.NoError(t, l.Release(t.Context()))
			time.Sleep(time.Second)
			v.nothingLeft(t)
		})
	}
}
