package multiplex

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/stretchr/testify/require"
)

// countOnce comes before the nodes are used.
func countOnce(m *Mux) {
	for i := range m.systems {
		m.systems[i] = m.systems[i].CountOnce(&m.aliases)
	}
}

// onServers says which server has the slot of each node: digits.
func onServers(m *Mux, servers string) {
	for i, digit := range strings.Split(servers, "") {
		m.aliases.Set(i, strings.Repeat(digit, 39)+"0", true)
	}
}

// The goal: of what the nodes of one server in a Redis Cluster grant, acquire, extension or Keep,
// one counts, whichever of them grants. So no server is a quorum alone. The error names the nodes.
func TestSlots_OneServerHasOneVote(t *testing.T) {
	for name, test := range map[string]struct {
		servers string
		failing []int
		want    Result
		noVotes []string
	}{
		"a server each":        {servers: "123", failing: []int{2}, want: Won},
		"all grant":            {servers: "112", want: Won},
		"the first one fails":  {servers: "112", failing: []int{0}, want: Won},
		"the second one fails": {servers: "112", failing: []int{1}, want: Won},
		"the other server fails": {
			servers: "112", failing: []int{2}, noVotes: []string{"1", "2"},
		},
		"the server between fails": {
			servers: "121", failing: []int{1}, noVotes: []string{"1", "2"},
		},
		"one server alone":          {servers: "111", noVotes: []string{"1", "2"}},
		"three servers of five":     {servers: "11223", failing: []int{0, 3}, want: Won},
		"two servers of five nodes": {servers: "11222", noVotes: []string{"1", "3", "4"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, stores, stop := simulated(len(test.servers), 1, 0)
			defer stop()
			countOnce(m)
			c := claim("k", "t")
			var failing atomic.Uint64
			for i, s := range stores {
				m.nodes[i].SendFlush = answeredBy(func(a []*Attempt, answers []node.Answer) {
					s.flush(a, answers)
					for k := range answers {
						if quorum.Nodes(failing.Load()).Has(i) {
							answers[k] = node.Answer{Replied: true, Err: errBroken}
						}
					}
				})
			}
			fail := func(servers string, nodes []int) {
				onServers(m, servers)
				failing.Store(0)
				for _, i := range nodes {
					failing.Or(uint64(quorum.Node(i)))
				}
			}
			check := func(what string, a *Attempt) {
				o := a.Wait(t.Context())
				if test.noVotes == nil {
					require.Equal(t, Won, o.Result, "%s: %s", name, what)
					return
				}
				require.Equal(t, NoQuorum, o.Result, "%s: %s", name, what)
				require.Equal(t, len(test.servers), o.Granted+o.Unknown)
				for i, n := range o.NoVotes {
					require.Equal(t, "node"+test.noVotes[i], n.Name, "%s: %s", name, what)
					if same := new(quorum.SameServerError); n.Err != errBroken {
						require.ErrorAs(t, n.Err, &same, "%s: %s", name, what)
					}
				}
			}
			fail(test.servers, test.failing)
			check("acquire", m.Acquire(c, time.Minute, 1))
			fail("12345"[:len(stores)], nil)
			c = claim("l", "t")
			o := m.Acquire(c, time.Minute, 1).Wait(t.Context())
			require.Equal(t, Won, o.Result)
			synctest.Wait()
			fail(test.servers, test.failing)
			check("extension", m.Extend(c, time.Minute, time.Now().Add(time.Minute), 0, 1))
			check("keep", m.Keep(c, time.Minute))
			fail("12345"[:len(stores)], nil)
			time.Sleep(time.Minute)
		})
	}
}

// The goal: a quorum that would need two votes of one server is not reachable, is not spare, and
// has nothing begin.
func TestSlots_TwoNodesOfOneServerAreNoQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		countOnce(m)
		onServers(m, "112")
		require.True(t, m.CanGrant() && m.CanGrantIn(0) && m.QuorumReachable())
		require.Zero(t, m.SpareNodes())
		m.nodes[2].Link.SetState(link.Down, errBroken)
		require.False(t, m.CanGrant() || m.CanGrantIn(0) || m.QuorumReachable())
		m.nodes[0].Link.SetState(link.Down, errBroken)
		m.nodes[2].Link.SetState(link.Up, nil)
		require.True(t, m.CanGrant())
	})
}

// The goal: nodes share a vote only where a claim needs both: a fleet may move from three slots of
// a cluster to others of it.
func TestSlots_OfTwoLayoutsHaveAVoteEach(t *testing.T) {
	moving(t, func(t *testing.T, m *Mux, _ []*memoryNode) {
		countOnce(m)
		onServers(m, "123123")
		require.Equal(t, 1, m.SpareNodes())
		onServers(m, "123112")
		require.Zero(t, m.SpareNodes())
		for system, want := range []Result{joint: Won, oldNodes: Won, newNodes: Won} {
			c := claimOf(uint8(system), "t")
			o := m.Acquire(c, time.Minute, 1).Wait(t.Context())
			require.Equal(t, want, o.Result)
			m.Release(c, 1)
		}
		onServers(m, "123111")
		for system, want := range []Result{joint: NoQuorum, oldNodes: Won, newNodes: NoQuorum} {
			c := claimOf(uint8(system), "t")
			o := m.Acquire(c, time.Minute, 1).Wait(t.Context())
			require.Equal(t, want, o.Result)
			m.Release(c, 1)
		}
		require.Equal(t, quorum.Nodes(0b001111),
			m.systems[joint].OnePerServer(m.all()))
		time.Sleep(time.Second) // all nodes answer
	})
}
