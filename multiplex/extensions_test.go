package multiplex

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/stretchr/testify/require"
)

// holds acquires claims of one key each, and returns when all nodes have answered.
func holds(t *testing.T, m *Mux, count int) []*Claim {
	t.Helper()
	claims := make([]*Claim, count)
	for i := range claims {
		claims[i] = claim(fmt.Sprint("k", i), fmt.Sprint("token", i))
		require.NoError(t, wait(m.Acquire(claims[i], time.Minute, 1), t.Context()))
	}
	time.Sleep(10 * time.Millisecond)
	synctest.Wait()
	return claims
}

// The goal: extensions that are added leave together when they are sent and not before, in one trip
// to each node, and an acquire that comes meanwhile does not wait for them.
func TestExtensions_LeaveTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		claims := holds(t, m, 100)
		before := m.nodes[0].Counts.Stats()
		e := m.Extensions(len(claims))
		var attempts []*Attempt
		for _, c := range claims {
			attempts = append(attempts, e.Add(c, time.Minute, time.Now().Add(time.Minute), 0))
		}
		require.NoError(t, wait(m.Acquire(claim("other", "t"), time.Minute, 1), t.Context()))
		require.Equal(t, before.Flushes+1, m.nodes[0].Counts.Stats().Flushes)
		e.Send()
		for _, a := range attempts {
			require.NoError(t, wait(a, t.Context()))
		}
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		after := m.nodes[0].Counts.Stats()
		require.Equal(t, before.Flushes+2, after.Flushes)
		require.Equal(t, before.Operations+101, after.Operations)
	})
}

// The goal: a release that comes before extensions are sent, or a newer extension, takes the place
// of the one that was added: no node is sent it behind the release.
func TestExtensions_AReleaseTakesThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		claims := holds(t, m, 3)
		e := m.Extensions(2)
		released := e.Add(claims[0], time.Minute, time.Now().Add(time.Minute), 0)
		newer := e.Add(claims[1], time.Minute, time.Now().Add(time.Minute), 0)
		other := e.Add(claims[2], time.Minute, time.Now().Add(time.Minute), 0)
		require.NoError(t, wait(m.Release(claims[0], 1), t.Context()))
		require.NoError(t, wait(m.Extend(claims[1], time.Minute, time.Now().Add(time.Minute), 0, 1),
			t.Context()))
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		before := m.nodes[0].Counts.Stats()
		e.Send()
		require.ErrorContains(t, wait(released, t.Context()), node.ErrSuperseded.Error())
		require.ErrorContains(t, wait(newer, t.Context()), node.ErrSuperseded.Error())
		require.NoError(t, wait(other, t.Context()))
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, before.Operations+1, m.nodes[0].Counts.Stats().Operations)
		for _, s := range stores {
			require.NotContains(t, s.keys, "k0")
			require.Contains(t, s.keys, "k1")
		}
		for _, c := range claims[:2] {
			c.mu.Lock()
			require.Zero(t, c.unanswered())
			c.mu.Unlock()
		}
	})
}

// The goal: if a release takes the place of all that was added, the callers do not wait.
func TestExtensions_NothingIsLeftToSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		claims := holds(t, m, 1)
		e := m.Extensions(1)
		a := e.Add(claims[0], time.Minute, time.Now().Add(time.Minute), 0)
		require.NoError(t, wait(m.Release(claims[0], 1), t.Context()))
		e.Send()
		start := time.Now()
		require.Error(t, wait(a, t.Context()))
		require.Zero(t, time.Since(start))
		time.Sleep(5 * time.Millisecond) // every node has answered the release
	})
}

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
		m.nodes[2].Link.SetState(NodeQuarantined, nil)
		require.NoError(t, wait(m.Acquire(c, 10*time.Second, 1), t.Context()))
		require.NotContains(t, stores[2].left(), "k")
		m.nodes[2].Link.SetState(NodeUp, nil)
		require.Contains(t, stores[2].left(), "k")
		require.False(t, m.Nodes()[2].Lacking)
		require.NoError(t, wait(m.Release(c, 1), t.Context()))
		time.Sleep(time.Second) // all nodes answer
	})
}
