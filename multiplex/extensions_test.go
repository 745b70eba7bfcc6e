package multiplex

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/stretchr/testify/require"
)

// The goal: a node that had to wait is sent what OnAdmitted extends: it reads the log before.
// Otherwise the other nodes alone may confirm an extension, and the node would lack the keys.
func TestExtensions_AnAdmittedNodeIsSentThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		c := claim("k", "token")
		m.cfg.AllExtended = func() bool { return true }
		m.cfg.OnAdmitted = func() {
			require.NoError(t, extends(t, m, c, 10*time.Second))
			require.True(t, m.Nodes()[2].Lacking, "not before it returns")
		}
		m.nodes[2].Link.SetState(link.Quarantined, nil)
		require.NoError(t, wait(m.Acquire(c, 10*time.Second, 1), t.Context()))
		require.NotContains(t, stores[2].left(), "k")
		m.nodes[2].Link.SetState(link.Up, nil)
		require.Contains(t, stores[2].left(), "k")
		require.False(t, m.Nodes()[2].Lacking)
		require.NoError(t, wait(m.Release(c, 1), t.Context()))
		time.Sleep(time.Second) // all nodes answer
	})
}
