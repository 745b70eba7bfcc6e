package parts

import (
	"context"
	"math/rand/v2"

	"github.com/lockpipe/lockpipe/internal/line"
	"github.com/lockpipe/lockpipe/internal/quorum"
)

// Look is what the nodes said of keys to a call that wants some of them.
type Look struct {
	// Free are the keys that so many nodes do not have that a quorum may grant them, in a random
	// order. Held are the keys that so many nodes have that no quorum can. Of Unknown too few nodes
	// have answered.
	Free, Held, Unknown []string
	// Nodes are the addresses of the nodes that have one of the held keys.
	Nodes []string
	// At is the first node that has a held key.
	At map[string]*line.Node
}

// Look asks the nodes which of these keys are free, as Peek does. It waits for no more nodes than
// that takes. It is a hint: only an attempt says whether a key can be had.
func (m *Mux) Look(ctx context.Context, keys []string) (l Look, err error) {
	asked, err := m.ask(ctx, keys, false, (*answers).areClear)
	if err != nil {
		return l, err
	}
	l.At = make(map[string]*line.Node)
	having := make([]quorum.Nodes, len(asked))
	for _, key := range keys {
		free, held := true, false
		for i := range asked {
			at, about := asked[i].at[key]
			if !about {
				continue
			}
			freeHere, heldHere, has := asked[i].of(at)
			if free = free && freeHere; heldHere && !held {
				held = true
				l.At[key] = m.Muxes[i].Line(has.Lowest())
				having[i] |= has
			}
		}
		switch {
		case held:
			l.Held = append(l.Held, key)
		case free:
			l.Free = append(l.Free, key)
		default:
			l.Unknown = append(l.Unknown, key)
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

// of returns whether a quorum of each set does not have a key, whether so many nodes have it that
// there is no such quorum, and these nodes. Both are false if too few nodes have answered.
func (a *answers) of(key asked) (free, held bool, has quorum.Nodes) {
	system := quorum.NewSystem(key.sets...)
	missing := quorum.Nodes(0)
	for i := range a.nodes {
		switch n := &a.nodes[i]; {
		case n.Err != nil:
		case n.Answers[key.index].Missing():
			missing |= quorum.Node(i)
		default:
			has |= quorum.Node(i)
		}
	}
	has &= system.Nodes()
	return system.IsQuorum(missing), !system.IsQuorum(system.Nodes() &^ has), has
}

// areClear reports whether the answers say of each key whether it is free.
func (a *answers) areClear() bool {
	for _, key := range a.at {
		if free, held, _ := a.of(key); !free && !held {
			return false
		}
	}
	return true
}
