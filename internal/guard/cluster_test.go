package guard

import (
	"testing"

	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/stretchr/testify/require"
)

// The goal: if two nodes in a Redis Cluster lead to one server, the one of the lower number votes
// there, in whatever order they come. The other one votes again when that has left.
func TestPeers_OneServerOfAClusterHasOneVote(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(3)
		f.nodes[2] = f.nodes[1]
		var yields []int
		c := f.client(t, forLocks, func(c *Config) {
			c.Yield = func(why error) { yields = append(yields, c.Node) }
		})
		c.lookAtAll()
		for range 2 {
			yields = nil
			var shared *SharedServerError
			require.ErrorAs(t, c.look(2), &shared)
			require.Equal(t, SharedServerError{"n2", "n1"}, *shared)
			require.NoError(t, c.look(1))
			require.Equal(t, []int{2}, yields)
			require.NoError(t, c.look(0))
		}
		require.Error(t, c.peers.Shared(2, f.nodes[1].RunID()))
		c.guards[1].Left()
		require.NoError(t, c.peers.Shared(2, f.nodes[1].RunID()))
		require.NoError(t, c.look(2))
		c.guards[2].Left()

		c.admitted = func(i int) {
			if i == 2 { // the other one comes when this one was admitted, and has no vote yet
				require.NoError(t, c.look(1))
			}
		}
		require.ErrorAs(t, c.look(2), new(*SharedServerError))
	})
}

// The goal: when a node has got another server, the new one is not taken for one that was never
// used, though it has no key: clients that saw more may have used the first one.
func TestGuard_NoFirstUseBehindAnotherServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(1)
		c := f.client(t, forLocks, func(c *Config) { c.Extra = 4 * second })
		f.nodes[0].Before = func(args []string) string {
			if args[0] == "EVALSHA" {
				return "-ERR the owner of the slot is another one\r\n"
			}
			return ""
		}
		require.ErrorContains(t, c.look(0), "is another one")
		f.nodes[0] = memorynode.New(9, 1)
		require.InDelta(t, forLocks+5*second, c.quarantined(0, reasonRestarted), 0)
	})
}
