package guard

import (
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/stretchr/testify/require"
)

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

// The goal: when a slot comes back to a server that had it before, the server waits as any that may
// have missed locks. But the log does not say that the node has a bad name: the cluster leads it to
// more than one server on purpose. Sentinels do not.
func TestGuard_ASlotThatComesBackIsNoBadName(t *testing.T) {
	for inCluster, reason := range map[bool]string{true: reasonMissed, false: reasonReturned} {
		bubble(t, func(t *testing.T) {
			f := newFleet(1)
			c := f.client(t, forLocks, func(c *Config) {
				c.Extra, c.InCluster = 4*second, inCluster
			})
			for c.lookAtAll() < 1 {
				time.Sleep(lookAgain)
			}
			a := f.nodes[0]
			f.nodes[0] = memorynode.New(9, 1)
			c.quarantined(0, reasonRestarted)
			f.nodes[0] = a
			require.InDelta(t, forLocks+5*second, c.quarantined(0, reason), 0)
			require.Equal(t, !inCluster, strings.Contains(c.log.String(), "node's name leads to"))
		})
	}
}

// The goal: while a fleet moves to more nodes of its cluster, a node's wait ends when a quorum of
// its own layout was heard, though nodes of the other layout are on the same servers.
func TestGuard_EachLayoutHearsItsOwnServers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(7)
		for i, server := range []int{0, 1, 2, 0, 0, 2, 2} { // layouts: 0, 1, 2 and 3, 4, 1, 5, 6
			f.nodes[i] = memorynode.New(20+server, 1)
		}
		c := f.client(t, forLocks, func(c *Config) { c.Strict, c.InCluster = true, true })
		c.peers.sets = []quorum.Nodes{0b111, 0b1111010}
		require.Zero(t, c.lookAtAll())
		time.Sleep(forLocks + second)
		require.Eventually(t, func() bool { return c.lookAtAll() == 7 }, second, lookAgain)
	})
}
