package holders

import (
	"math"
	"slices"
	"time"
)

// Forever is the time left of a key that never ends.
const Forever = time.Duration(math.MaxInt64)

// Holding is what the nodes together say of one key.
type Holding struct {
	// Nodes is how many nodes have the key with the same token: the one that most nodes have.
	// Several that have the same value, with the same character, lead to one server, and are one.
	Nodes int
	// Held: these nodes are a quorum. The rest is for a key that is held.
	Held bool
	// Token is theirs; "" if nobody knows who has the key.
	Token string
	// Left is after what time they are fewer than a quorum.
	Left time.Duration
	// Waiting is how many places the longest of the lines for the key has.
	Waiting int
}

// Count returns what nodes say of the key at index i. Nodes that have said nothing do not count.
func Count(nodes []Node, i, quorum int) (h Holding) {
	left := map[string][]time.Duration{} // by token, of each node that has it
	seen := map[string]bool{}            // values of lockpipe
	for _, n := range nodes {
		if n.Err != nil {
			continue
		}
		a := &n.Answers[i]
		value := a.Token + string(a.Node)
		if h.Waiting = max(h.Waiting, a.Waiting); a.Missing() || seen[value] {
			continue
		}
		seen[value] = a.Node != 0
		left[a.Token] = append(left[a.Token], a.Left())
		if count := len(left[a.Token]); count > h.Nodes {
			h.Nodes, h.Token = count, a.Token
		}
	}
	if h.Held = h.Nodes >= quorum; !h.Held {
		return Holding{Nodes: h.Nodes, Waiting: h.Waiting}
	}
	times := left[h.Token]
	slices.Sort(times)
	h.Left = times[len(times)-quorum]
	return h
}

// The TTLs that stand for something else.
const (
	endless = -1
	missing = -2
)

// Missing reports whether the node has no such key.
func (a *Answer) Missing() bool { return a.TTL == missing }

// Left returns the TTL as a duration, if the node has the key.
func (a *Answer) Left() time.Duration {
	if a.TTL == endless || a.TTL > int64(Forever/time.Millisecond) {
		return Forever
	}
	return time.Duration(a.TTL) * time.Millisecond
}
