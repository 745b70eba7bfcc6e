package parts

import (
	"context"
	"slices"

	"github.com/lockpipe/lockpipe/internal/holders"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Answers is what the nodes of one group say of keys.
type Answers struct {
	nodes []holders.Node
	at    map[string]int // the index of each key in their answers
	mux   *Mux
	group int
}

// Peek asks the nodes who has these keys, given without the prefix, each those of its first group:
// see multiplex.Mux.Peek. No two keys are the same. Each key is in one of the answers.
func (m *Mux) Peek(ctx context.Context, keys []string) (asked []Answers, err error) {
	return m.ask(ctx, keys, func(*Answers) bool { return false })
}

// ask is Peek, but it waits for no further node of a group when its answers are enough.
func (m *Mux) ask(ctx context.Context, keys []string, enough func(*Answers) bool) (
	asked []Answers, err error,
) {
	all, names := make([]Answers, len(m.muxes)), make([][]string, len(m.muxes))
	for _, key := range keys {
		group := m.first(key).Mux
		if all[group].at == nil {
			all[group] = Answers{at: make(map[string]int), mux: m, group: group}
		}
		all[group].at[key] = len(names[group])
		names[group] = append(names[group], m.prefix+key)
	}
	err = m.each(func(i int, mux *multiplex.Mux) (err error) {
		if len(names[i]) > 0 {
			suffice := func(nodes []holders.Node) bool {
				all[i].nodes = nodes
				return enough(&all[i])
			}
			all[i].nodes, err = mux.Peek(ctx, names[i], suffice)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(a Answers) bool { return a.at == nil }), nil
}

// Sets returns the nodes of each set in which a quorum has to answer: those of the keys.
func (a *Answers) Sets() [][]holders.Node {
	of := a.mux.layout.Muxes[a.group]
	var sets []quorum.Nodes
	for key := range a.at {
		sets = append(sets, of.Systems[a.mux.first(key).System]...)
	}
	slices.Sort(sets)
	return subsets(slices.Compact(sets), a.nodes)
}

// Has reports whether the answers are about a key.
func (a *Answers) Has(key string) bool {
	_, has := a.at[key]
	return has
}

// Count returns what the nodes say of a key that the answers are about: see holders.Count. It is
// held if it is in each set in which it needs a quorum.
func (a *Answers) Count(key string) holders.Holding {
	i := a.at[key]
	place := a.mux.first(key)
	system := a.mux.layout.Muxes[place.Mux].Systems[place.System]
	least := holders.Holding{Nodes: holders.Count(a.nodes, i, len(a.nodes)).Nodes}
	for s, nodes := range subsets(system, a.nodes) {
		h := holders.Count(nodes, i, quorum.Need(len(nodes)))
		if !h.Held || s > 0 && h.Token != least.Token {
			return holders.Holding{Nodes: least.Nodes}
		}
		if s == 0 || h.Left < least.Left {
			least.Left = h.Left
		}
		least.Held, least.Token = true, h.Token
	}
	return least
}
