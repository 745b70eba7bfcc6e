package multiplex

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/stretchr/testify/require"
)

// released records the keys of the releases that nodes are sent.
type released struct {
	mu   sync.Mutex // guards keys
	keys map[int][][]string
}

// answers lets node i answer acquires with r and everything else with a grant.
func (s *released) answers(n *node.Node, i int, r node.Answer) {
	n.SendFlush = answeredBy(func(attempts []*Attempt, answers []node.Answer) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for k, a := range attempts {
			switch a.op.Kind {
			case node.Acquire:
				answers[k] = r
				continue
			case node.Release:
				s.keys[i] = append(s.keys[i], a.op.Keys.All())
			}
			answers[k] = node.Answer{Vote: node.Granted, Replied: true}
		}
	})
}

// The goal: after an acquire of any key, the lease is for the key that a quorum took. A node whose
// answer is lost may have taken any, so the release has all keys. If all nodes answered, it has
// that key alone.
func TestAny_TheReleaseHasEachKeyThatANodeMayHave(t *testing.T) {
	took := node.Answer{Vote: node.Granted, Replied: true, KeyIndex: 1}
	refused := node.Answer{Vote: node.Refused, LeftNothing: true, Replied: true}
	for name, test := range map[string]struct {
		last node.Answer
		want []string
	}{
		"all took it":      {took, []string{"b"}},
		"one refused":      {refused, []string{"b"}},
		"an answer lost":   {node.Answer{Broken: true, Err: errBroken}, []string{"a", "b", "c"}},
		"one was not sent": {node.Answer{LeftNothing: true, Err: errBroken}, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _, stop := simulated(3, 1, 0)
				defer stop()
				s := &released{keys: map[int][][]string{}}
				for i, n := range m.nodes {
					s.answers(n, i, took)
				}
				s.answers(m.nodes[2], 2, test.last)
				c := new(Claim)
				c.Init("", []string{"a", "b", "c"}, "token", "")
				a := m.AcquireAny(c, time.Minute)
				require.Equal(t, Won, a.Wait(t.Context(), time.Time{}).Result)
				synctest.Wait()
				require.Equal(t, "b", c.Key(0))
				require.Equal(t, 1, c.Len())
				require.NoError(t, wait(m.Release(c, 1), t.Context()))
				synctest.Wait()
				s.mu.Lock()
				defer s.mu.Unlock()
				require.Equal(t, [][]string{test.want}, s.keys[0])
			})
		})
	}
}

// The goal: a node that took another key than the quorum has that one released at once, alone.
func TestAny_AnotherKeyIsReleasedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		s := &released{keys: map[int][][]string{}}
		for i, n := range m.nodes {
			s.answers(n, i, node.Answer{Vote: node.Granted, Replied: true, KeyIndex: int32(i / 2)})
		}
		c := new(Claim)
		c.Init("", []string{"a", "b", "c"}, "token", "")
		a := m.AcquireAny(c, time.Minute)
		require.Equal(t, Won, a.Wait(t.Context(), time.Time{}).Result)
		synctest.Wait()
		require.Equal(t, "a", c.Key(0))
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Equal(t, map[int][][]string{2: {{"b"}}}, s.keys)
	})
}

// The goal: nodes that took different keys are no quorum, and count as refusals of each other's.
func TestAny_DifferentKeysAreNoQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		s := &released{keys: map[int][][]string{}}
		for i, n := range m.nodes {
			s.answers(n, i, node.Answer{Vote: node.Granted, Replied: true, KeyIndex: int32(i)})
		}
		c := new(Claim)
		c.Init("", []string{"a", "b", "c"}, "token", "")
		a := m.AcquireAny(c, time.Minute)
		o := a.Wait(t.Context(), time.Time{})
		require.Equal(t, Held, o.Result)
		require.Len(t, o.Nodes, 3)
		require.True(t, a.Split())
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Equal(t, [][]string{{"a", "b", "c"}}, s.keys[2])
	})
}
