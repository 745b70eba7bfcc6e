package multiplex

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: a change of the guard's key that the client did not make ends the node's vote at once:
// another client has found that the node has lost something.
func TestGuardedVotes_EndWhenTheKeyChanges(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	for _, command := range [][]string{
		{"SET", ids.AdmittedKey, "another"},
		{"DEL", ids.AdmittedKey},
		{"RENAME", ids.AdmittedKey, "away"},
		{"PEXPIRE", ids.AdmittedKey, "1"},
	} {
		conn := m.nodes[0].Link.Verified()
		require.NotNil(t, conn)
		ask(t, nodes, 0, command...)
		require.Eventually(t, func() bool { return !conn.Verified() }, patient, often, command)
		becomes(t, m, 0, link.Quarantined, "")
		ask(t, nodes, 0, "SET", ids.AdmittedKey, runID(t, nodes, 0))
		up(t, m)
	}
}

// The goal: a server that can't tell of changes gives no votes behind a flush, because the guard's
// key is read behind all that it is sent.
func TestGuardedVotes_WithoutTrackingTheKeyIsReadBehindThem(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	ask(t, nodes, 0, "ACL", "SETUSER", "u", "on", ">p", "+@all", "~*", "-client|tracking")
	url := "redis://u:p@" + nodes.URLs()[0][len("redis://"):]
	m := start(t, []string{url}, nil)
	up(t, m)
	require.NotNil(t, m.nodes[0].Link.Current().ReadBehind)
	c := claim("k", "t")
	require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
	require.NoError(t, extends(t, m, c, time.Minute))
	require.NoError(t, wait(m.Release(c, 1), t.Context()))
	require.NoError(t, nodes.Flush(0))
	require.ErrorIs(t, wait(m.Acquire(claim("k", "t2"), time.Minute, 1), t.Context()), ErrNoQuorum)
	becomes(t, m, 0, link.Quarantined, whyFlushed)
}

// The goal: no node is asked before a quorum is connected. A vote of an earlier moment would count
// although the node was wiped, and used for the first time, before the others came.
func TestGuardedVotes_BeginWithAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nodes []*memorynode.Node
		var reachable, taken atomic.Int32
		for i := range 3 {
			n := memorynode.New(i, 1)
			n.Set(ids.AdmittedKey, n.RunID())
			n.OnTake = func(key, _ string, _ *memorynode.Session) {
				if key == "k" {
					taken.Add(1)
				}
			}
			nodes = append(nodes, n)
		}
		reachable.Store(1)
		m := start(t, []string{"n0", "n1", "n2"}, func(c *Config) {
			c.Dial = func(_ context.Context, _, address string) (net.Conn, error) {
				for i := range reachable.Load() {
					if address == fmt.Sprintf("n%d:6379", i) {
						return nodes[i].Dial(), nil
					}
				}
				return nil, errors.New("out of reach")
			}
		})
		time.Sleep(time.Second)
		require.Equal(t, link.Up, m.Nodes()[0].State)
		early := claim("k", "t")
		require.ErrorIs(t, wait(m.Acquire(early, time.Minute, 1), t.Context()), ErrNoQuorum)
		require.NoError(t, wait(m.Release(early, 1), t.Context()), "it was never sent")
		require.Zero(t, taken.Load())
		reachable.Store(2)
		time.Sleep(time.Second)
		c := claim("k", "t2")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		require.NotZero(t, taken.Load())
		reachable.Store(1)
		nodes[1].Restart()
		time.Sleep(time.Second)
		_ = wait(m.Release(c, 1), t.Context())
		_, held := nodes[0].Get("k")
		require.False(t, held, "a release needs no quorum")
		closes(t, m)
	})
}
