package parts

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/lockpipe/lockpipe/internal/quorum"
)

// Look is what the nodes said of keys to a call that wants some of them.
type Look struct {
	// Free are the keys that a quorum of each set does not have, in a random order. Held are other
	// keys that a node has. Of Unknown too few nodes have answered.
	Free, Held, Unknown []string
	// Nodes are the addresses of the nodes that have one of the held keys.
	Nodes []string
	// At is a node that has a held key, for Watch.Subscribe: the arbiter, or the first one.
	At map[string]int
}

// Look asks the nodes which of these keys are free, as Peek does. It waits for a quorum of nodes,
// and no longer. It is a hint: only an attempt says whether a key can be had.
func (m *Mux) Look(ctx context.Context, keys []string) (l Look, err error) {
	asked, err := m.ask(ctx, keys, (*Answers).areQuorum)
	if err != nil {
		return l, err
	}
	l.At = make(map[string]int)
	having := make([]quorum.Nodes, len(asked))
	for _, key := range keys {
		i := slices.IndexFunc(asked, func(a Answers) bool { return a.Has(key) })
		a := &asked[i]
		system, answered, has := a.system(key), a.answered(), a.having(key)
		switch has &= system.Nodes(); {
		case system.IsQuorum(answered &^ has):
			l.Free = append(l.Free, key)
		case has == 0 || !system.IsQuorum(answered):
			l.Unknown = append(l.Unknown, key)
		default:
			l.Held = append(l.Held, key)
			at := m.Arbiter(key, 0)
			if at < 0 || !has.Has(at) {
				at = has.Lowest()
			}
			l.At[key] = at
			having[i] |= has
		}
	}
	rand.Shuffle(len(l.Free), func(i, j int) { l.Free[i], l.Free[j] = l.Free[j], l.Free[i] })
	for i, nodes := range having {
		for ; nodes != 0; nodes &= nodes - 1 {
			l.Nodes = append(l.Nodes, asked[i].nodes[nodes.Lowest()].Name)
		}
	}
	return l, nil
}

// system returns the quorum system of a key in its first group.
func (a *Answers) system(key string) quorum.System {
	at := a.mux.first(key)
	return quorum.NewSystem(a.mux.layout.Muxes[at.Mux].Systems[at.System]...)
}

// answered returns the nodes that have answered.
func (a *Answers) answered() (nodes quorum.Nodes) {
	for i := range a.nodes {
		if a.nodes[i].Err == nil {
			nodes |= quorum.Node(i)
		}
	}
	return nodes
}

// having returns the nodes that have the key.
func (a *Answers) having(key string) (nodes quorum.Nodes) {
	for i := range a.nodes {
		if n := &a.nodes[i]; n.Err == nil && !n.Answers[a.at[key]].Missing() {
			nodes |= quorum.Node(i)
		}
	}
	return nodes
}

// areQuorum reports whether a quorum has answered, of the nodes of each key.
func (a *Answers) areQuorum() bool {
	answered := a.answered()
	for key := range a.at {
		if system := a.system(key); !system.IsQuorum(answered) {
			return false
		}
	}
	return true
}
