package multiplex

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/stretchr/testify/require"
)

// extends starts an extension for ttl of a lease that has a minute left, and returns its outcome.
func extends(t *testing.T, m *Mux, c *Claim, ttl time.Duration) error {
	t.Helper()
	defer time.Sleep(time.Second) // all nodes answer
	return wait(m.Extend(c, ttl, time.Now().Add(time.Minute), 0, 1), t.Context())
}

// The goal: nodes that lost the keys at the same time cost the lease, also if none of the
// extensions that found them got all of their answers. An answer that comes too late for its own
// extension counts for the later ones.
func TestExtend_ReportsALossThatNoSingleOneSaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		gate := make(chan struct{})
		c := claim("k", "token")
		require.NoError(t, wait(m.Acquire(c, 10*time.Second, 1), t.Context()))
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		delete(stores[0].keys, "k")
		delete(stores[2].keys, "k")
		trip := m.nodes[2].SendFlush
		m.nodes[2].SendFlush = func(f *node.Flush) {
			<-gate
			trip(f)
		}
		extension := func() error {
			return wait(m.Extend(c, 10*time.Second, time.Now().Add(9*time.Second), 0, 1),
				t.Context())
		}
		require.ErrorIs(t, extension(), ErrNoQuorum)
		require.NoError(t, extension(), "a quorum has it, and nobody else is known to have had one")
		close(gate)
		time.Sleep(time.Second)
		synctest.Wait()
		require.ErrorIs(t, extension(), ErrHeld)
		_ = wait(m.Release(c, 1), t.Context())
		time.Sleep(time.Minute)
		synctest.Wait()
	})
}
