package holders

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// said is a node that has one key.
func said(token string, ttl int64) Node {
	return Node{Answers: []Answer{{TTL: ttl, Token: token}}}
}

// on is a node that has one key with a value of lockpipe, whose character is node.
func on(node, token string, ttl int64) Node {
	return Node{Answers: []Answer{{TTL: ttl, Token: token, Node: node[0]}}}
}

// The goal: a key is held if a quorum has it for the same holder, until fewer than a quorum do. One
// server counts once, whatever its names are.
func TestCount_Cases(t *testing.T) {
	silent, none := Node{Err: errors.New("down")}, said("", missing)
	second := int64(1000)
	for name, tc := range map[string]struct {
		nodes []Node
		want  Holding
	}{
		"nobody": {[]Node{none, none, none}, Holding{}},
		"all": {
			[]Node{said("a", 3*second), said("a", second), said("a", 2*second)},
			Holding{Nodes: 3, Held: true, Token: "a", Left: 2 * time.Second},
		},
		"a quorum": {
			[]Node{said("a", 3*second), none, said("a", 2*second)},
			Holding{Nodes: 2, Held: true, Token: "a", Left: 2 * time.Second},
		},
		"a quorum, and another": {
			[]Node{said("b", 9*second), said("a", 2*second), said("a", second)},
			Holding{Nodes: 2, Held: true, Token: "a", Left: time.Second},
		},
		"too few": {[]Node{said("a", second), none, none}, Holding{Nodes: 1}},
		"too few, and nobody knows": {
			[]Node{said("a", second), silent, none}, Holding{Nodes: 1},
		},
		"each another": {
			[]Node{said("a", 1), said("b", 1), said("c", 1)}, Holding{Nodes: 1},
		},
		"an even number is no quorum": {
			[]Node{said("a", 1), said("a", 1), said("b", 1), said("b", 1)}, Holding{Nodes: 2},
		},
		"no token": {
			[]Node{said("", second), said("", second), none},
			Holding{Nodes: 2, Held: true, Left: time.Second},
		},
		"one server under two names": {
			[]Node{on("A", "a", second), on("A", "a", second), none}, Holding{Nodes: 1},
		},
		"one server under two names, and another": {
			[]Node{on("B", "a", second), on("A", "a", 2*second), on("B", "a", second)},
			Holding{Nodes: 2, Held: true, Token: "a", Left: time.Second},
		},
		"a node of one of two holders": {
			[]Node{on("A", "a", second), on("A", "b", second), on("B", "b", second)},
			Holding{Nodes: 2, Held: true, Token: "b", Left: time.Second},
		},
		"without an end": {
			[]Node{said("a", endless), said("a", endless), said("a", second)},
			Holding{Nodes: 3, Held: true, Token: "a", Left: Forever},
		},
		"some without an end": {
			[]Node{said("a", endless), said("a", second), none},
			Holding{Nodes: 2, Held: true, Token: "a", Left: time.Second},
		},
		"beyond what a Duration has": {
			[]Node{said("a", math.MaxInt64), said("a", math.MaxInt64)},
			Holding{Nodes: 2, Held: true, Token: "a", Left: Forever},
		},
		"about to end": {
			[]Node{said("a", 0), said("a", 0), said("a", 0)},
			Holding{Nodes: 3, Held: true, Token: "a"},
		},
	} {
		require.Equal(t, tc.want, Count(tc.nodes, 0, len(tc.nodes)/2+1), name)
	}
}

// The goal: Count agrees with a version that tries each token and each moment.
func TestCount_AgreesWithTheSimpleVersion(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		nodes := make([]Node, 1+random.IntN(7))
		for i := range nodes {
			switch random.IntN(4) {
			case 0:
				nodes[i].Err = errors.New("down")
			case 1:
				nodes[i] = said("", missing)
			default:
				nodes[i] = said([]string{"a", "a", "b"}[random.IntN(3)], int64(random.IntN(5)))
			}
		}
		quorum := len(nodes)/2 + 1
		having := func(token string, at int64) (count int) {
			for _, n := range nodes {
				if n.Err == nil && n.Answers[0].TTL >= at && n.Answers[0].Token == token {
					count++
				}
			}
			return count
		}
		want := Holding{Nodes: max(having("a", 0), having("b", 0))}
		for _, token := range []string{"a", "b"} {
			for at := int64(0); having(token, at) >= quorum; at++ {
				want.Held, want.Token = true, token
				want.Left = time.Duration(at) * time.Millisecond
			}
		}
		require.Equal(t, want, Count(nodes, 0, quorum), "%v", nodes)
	}
}
