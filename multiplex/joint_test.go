package multiplex

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/stretchr/testify/require"
)

// The quorum systems of clients that move from nodes 0 to 2 to nodes 3 to 5: those that need both
// sets, those that know the old ones alone, and those that know the new ones alone.
const (
	joint uint8 = iota
	oldNodes
	newNodes
)

// moving runs a test with the clients of a move in one Mux, over nodes in memory.
func moving(t *testing.T, test func(t *testing.T, m *Mux, stores []*memoryNode)) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(6, 1, 0)
		defer stop()
		m.systems = []quorum.System{
			quorum.NewSystem(0b000111, 0b111000), quorum.NewSystem(0b000111),
			quorum.NewSystem(0b111000),
		}
		test(t, m, stores)
	})
}

// claimOf returns a claim of k that belongs to a quorum system.
func claimOf(system uint8, token string) *Claim {
	c := claim("k", token)
	c.UseSystem(system)
	return c
}

// The goal: an acquire needs a quorum of both sets. If one of them refuses it, it is held. If one
// has no quorum, the error shows the counts of that set, which add up. Nothing is left of it.
func TestJoint_AnAcquireNeedsAQuorumOfEachSet(t *testing.T) {
	for name, test := range map[string]struct {
		held, failing []int
		want          Result
		noVotes       []string
	}{
		"all grant":           {want: Won},
		"one of each fails":   {failing: []int{1, 5}, want: Won},
		"one of each refuses": {held: []int{0, 3}, want: Won},
		"new ones refuse":     {held: []int{3, 4}, want: Held},
		"old ones refuse":     {held: []int{0, 2}, want: Held},
		"new ones fail": {
			failing: []int{3, 5}, want: NoQuorum, noVotes: []string{"node3", "node5"},
		},
		"old ones fail": {
			failing: []int{0, 1, 4}, want: NoQuorum, noVotes: []string{"node0", "node1"},
		},
		"all fail but one": {
			failing: []int{0, 1, 3, 4, 5}, want: NoQuorum, noVotes: []string{"node0", "node1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			moving(t, func(t *testing.T, m *Mux, stores []*memoryNode) {
				for _, i := range test.held {
					stores[i].hold("k", "another")
				}
				for _, i := range test.failing {
					m.nodes[i].SendFlush = all(node.Answer{
						LeftNothing: true, Replied: true, Err: errBroken,
					})
				}
				c := claimOf(joint, "t")
				a := m.Acquire(c, time.Minute, 1)
				time.Sleep(10 * time.Millisecond) // all nodes answer
				synctest.Wait()
				o := a.Wait(t.Context())
				require.Equal(t, test.want, o.Result)
				if test.want == NoQuorum {
					counts := []int{o.Need, o.Granted, o.Refused, o.Unknown}
					require.Equal(t, []int{2, 1, 0, 2}, counts)
					var noVotes []string
					for _, n := range o.NoVotes {
						noVotes = append(noVotes, n.Name)
					}
					require.Equal(t, test.noVotes, noVotes)
				}
				m.Release(c, 1)
				for _, i := range test.held {
					stores[i].free("k")
				}
				for _, i := range test.failing {
					m.nodes[i].SendFlush = answeredBy(stores[i].flush)
				}
				nothingLeft(t, m, stores)
			})
		})
	}
}

// The goal: a client that needs both sets and one that knows a single one exclude each other,
// whichever comes first. The first one's release lets the other have the key.
func TestJoint_ClientsThatShareASetExcludeEachOther(t *testing.T) {
	for _, pair := range [][2]uint8{
		{joint, oldNodes}, {oldNodes, joint}, {joint, newNodes}, {newNodes, joint}, {joint, joint},
	} {
		t.Run(fmt.Sprint(pair), func(t *testing.T) {
			moving(t, func(t *testing.T, m *Mux, stores []*memoryNode) {
				first := claimOf(pair[0], "1")
				require.NoError(t, wait(m.Acquire(first, time.Minute, 1), t.Context()))
				other := wait(m.Acquire(claimOf(pair[1], "2"), time.Minute, 1), t.Context())
				require.ErrorIs(t, other, ErrHeld)
				require.NoError(t, wait(m.Release(first, 1), t.Context()))
				time.Sleep(time.Second)
				synctest.Wait()
				second := claimOf(pair[1], "3")
				require.NoError(t, wait(m.Acquire(second, time.Minute, 1), t.Context()))
				require.NoError(t, wait(m.Release(second, 1), t.Context()))
				nothingLeft(t, m, stores)
			})
		})
	}
}

// The goal: a claim asks the nodes of its own quorum system alone, whatever it does. The others are
// sent nothing of it.
func TestJoint_OnlyTheNodesOfTheClaimAreAsked(t *testing.T) {
	moving(t, func(t *testing.T, m *Mux, stores []*memoryNode) {
		var mu sync.Mutex
		sent := make([]int, len(m.nodes))
		for i, s := range stores {
			m.nodes[i].SendFlush = answeredBy(func(attempts []*Attempt, answers []node.Answer) {
				mu.Lock()
				sent[i] += len(attempts)
				mu.Unlock()
				s.flush(attempts, answers)
			})
		}
		c := claimOf(newNodes, "t")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		require.NoError(t, extends(t, m, c, time.Minute))
		require.NoError(t, wait(m.Release(c, 1), t.Context()))
		nothingLeft(t, m, stores)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []int{0, 0, 0, 3, 3, 3}, sent)
		require.Zero(t, unsettled(c))
	})
}

// The goal: an extension that only the old nodes confirm is not won. If a quorum of the new ones is
// without the keys, a client that knows these alone may have had them: the lease is lost.
func TestJoint_AnExtensionNeedsAQuorumOfEachSet(t *testing.T) {
	moving(t, func(t *testing.T, m *Mux, stores []*memoryNode) {
		c := claimOf(joint, "t")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		require.NoError(t, extends(t, m, c, time.Minute))
		var resume []func()
		for _, n := range m.nodes[3:5] {
			resume = append(resume, hang(n))
		}
		require.ErrorIs(t, extends(t, m, c, time.Minute), ErrNoQuorum)
		for _, f := range resume {
			f()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.NoError(t, extends(t, m, c, time.Minute))
		stores[3].free("k")
		stores[4].free("k")
		require.ErrorIs(t, extends(t, m, c, time.Minute), ErrHeld)
		require.NoError(t, wait(m.Release(c, 1), t.Context()))
		nothingLeft(t, m, stores)
	})
}

// The goal: what an extension found missing in one set is forgotten only when no quorum of any set
// can have been without the keys.
func TestJoint_ALossIsRememberedForEachSet(t *testing.T) {
	moving(t, func(t *testing.T, m *Mux, stores []*memoryNode) {
		c := claimOf(joint, "t")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		time.Sleep(time.Second)
		synctest.Wait()
		stores[3].free("k")
		resume := []func(){hang(m.nodes[4]), hang(m.nodes[5])}
		require.ErrorIs(t, extends(t, m, c, time.Minute), ErrNoQuorum)
		c.mu.Lock()
		require.Equal(t, quorum.Node(3), c.lost)
		c.mu.Unlock()
		for _, f := range resume {
			f()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.NoError(t, extends(t, m, c, time.Minute))
		c.mu.Lock()
		require.Zero(t, c.lost)
		c.mu.Unlock()
		require.NoError(t, wait(m.Release(c, 1), t.Context()))
		nothingLeft(t, m, stores)
	})
}

// The goal: a release is confirmed when both sets have, and as soon as they have.
func TestJoint_AReleaseIsConfirmedByEachSet(t *testing.T) {
	moving(t, func(t *testing.T, m *Mux, stores []*memoryNode) {
		c := claimOf(joint, "t")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		time.Sleep(time.Second)
		synctest.Wait()
		resume := []func(){hang(m.nodes[3]), hang(m.nodes[5])}
		release := m.Release(c, 1)
		require.ErrorIs(t, wait(release, t.Context()), ErrNoQuorum)
		resume[0]()
		time.Sleep(time.Second)
		synctest.Wait()
		require.NoError(t, wait(release, t.Context()))
		resume[1]()
		nothingLeft(t, m, stores)
	})
}

// The goal: all contenders of a move that share a set have the same arbiter. It is one of the first
// set, and of the nodes that a client knows.
func TestJoint_ContendersThatShareTheFirstSetChooseTheSameArbiter(t *testing.T) {
	moving(t, func(t *testing.T, m *Mux, _ []*memoryNode) {
		chosen := map[int]bool{}
		for i := range 300 {
			key := fmt.Sprint("sku:", i)
			arbiter := arbiterIn(m, joint, 0, key, i%3)
			require.Equal(t, arbiter, arbiterIn(m, oldNodes, 0, key, i%3))
			require.Equal(t, arbiterIn(m, joint, 1, key, i%3), arbiterIn(m, newNodes, 0, key, i%3))
			chosen[arbiter] = true
			chosen[arbiterIn(m, newNodes, 0, key, 0)] = true
			require.GreaterOrEqual(t, arbiterIn(m, newNodes, 0, key, 0), 3)
			require.Less(t, arbiter, 3)
		}
		require.Len(t, chosen, 6)
	})
}

// The goal: claims can reach a quorum only if each of their sets has one. The nodes to spare are
// those of the set that has the fewest.
func TestJoint_NodesToSpareAreThoseOfEachSet(t *testing.T) {
	moving(t, func(t *testing.T, m *Mux, _ []*memoryNode) {
		for _, step := range []struct {
			down      int
			reachable []bool
			spare     int
		}{
			{3, []bool{true, true, true}, 0},
			{0, []bool{true, true, true}, 0},
			{5, []bool{false, true, false}, -1},
		} {
			m.nodes[step.down].Link.SetState(link.Down, errBroken)
			for i, reachable := range step.reachable {
				require.Equal(t, reachable, m.CanGrantIn(uint8(i)))
			}
			require.True(t, m.QuorumReachable(), "by some claims")
			require.Equal(t, step.spare, m.SpareNodes())
		}
	})
}

// The goal: a fence that was too low is worth another attempt if a quorum of each set may grant a
// higher one.
func TestJoint_TooLowAFenceIsOneOfEachSet(t *testing.T) {
	g, s := node.Answer{Vote: node.Granted, Replied: true, KeyIndex: -1},
		node.Answer{Err: &node.FenceTooLowError{Seen: 7}}
	e := node.Answer{Err: errBroken}
	moving(t, func(t *testing.T, m *Mux, _ []*memoryNode) {
		for i, test := range []struct {
			votes []node.Answer
			again bool
		}{
			{[]node.Answer{s, s, e, s, s, e}, true},
			{[]node.Answer{s, s, s, s, g, g}, true},
			{[]node.Answer{s, s, s, g, g, g}, true},
			{[]node.Answer{s, s, s, e, e, g}, false},
		} {
			c := claimOf(joint, "t")
			c.Fence(5, 5)
			a := m.newAttempt(c, node.Acquire, time.Minute, time.Second, time.Second)
			for i, v := range test.votes {
				a.addVote(i, v)
			}
			_, again := a.FenceTooLow()
			require.Equal(t, test.again, again, i)
		}
	})
}
