package parts

import (
	"context"
	"slices"

	"github.com/lockpipe/lockpipe/internal/holders"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/layout"
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

// Peek asks the nodes who has these keys, given without the prefix, each those of its groups: see
// multiplex.Mux.Peek. No two keys are the same. Each key is in one of the answers, or in two.
func (m *Mux) Peek(ctx context.Context, keys []string) (asked []Answers, err error) {
	return m.ask(ctx, keys, true, func(*Answers) bool { return false })
}

// ask is Peek, but it waits for no further node of a group when its answers are enough. lines: it
// asks for the length of the lines too.
func (m *Mux) ask(ctx context.Context, keys []string, lines bool, enough func(*Answers) bool) (
	asked []Answers, err error,
) {
	all := make([]Answers, len(m.muxes))
	names, lineNames := make([][]string, len(m.muxes)), make([][]string, len(m.muxes))
	for _, key := range keys {
		for _, place := range m.layout.Places(key) {
			group := place.Mux
			if all[group].at == nil {
				all[group] = Answers{at: make(map[string]int), mux: m, group: group}
			}
			all[group].at[key] = len(names[group])
			names[group] = append(names[group], m.prefix+key)
			if lines {
				lineNames[group] = append(lineNames[group], m.prefix+ids.LineKey+key)
			}
		}
	}
	err = m.each(func(i int, mux *multiplex.Mux) (err error) {
		if len(names[i]) > 0 {
			suffice := func(nodes []holders.Node) bool {
				all[i].nodes = nodes
				return enough(&all[i])
			}
			all[i].nodes, err = mux.Peek(ctx, names[i], lineNames[i], suffice)
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
	var sets []quorum.Nodes
	for key := range a.at {
		sets = append(sets, a.setsOf(key)...)
	}
	slices.Sort(sets)
	return subsets(slices.Compact(sets), a.nodes)
}

// setsOf returns the sets of nodes in which the key needs a quorum.
func (a *Answers) setsOf(key string) []quorum.Nodes {
	places := a.mux.layout.Places(key)
	i := slices.IndexFunc(places, func(at layout.Place) bool { return at.Mux == a.group })
	return a.mux.layout.Muxes[a.group].Systems[places[i].System]
}

// Has reports whether the answers are about a key.
func (a *Answers) Has(key string) bool {
	_, has := a.at[key]
	return has
}

// Count returns what the nodes say of a key: see holders.Count. It is held if it is held in any set
// of those in which it needs a quorum: nobody else gets it then. If one holder has it in several,
// Left is until the first of them is over.
func Count(asked []Answers, key string) (sum holders.Holding) {
	for _, a := range asked {
		if !a.Has(key) {
			continue
		}
		i := a.at[key]
		all := holders.Count(a.nodes, i, len(a.nodes))
		sum.Nodes, sum.Waiting = max(sum.Nodes, all.Nodes), max(sum.Waiting, all.Waiting)
		for _, nodes := range subsets(a.setsOf(key), a.nodes) {
			h := holders.Count(nodes, i, quorum.Need(len(nodes)))
			switch {
			case !h.Held:
			case !sum.Held:
				sum.Held, sum.Token, sum.Left = true, h.Token, h.Left
			case h.Token == sum.Token:
				sum.Left = min(sum.Left, h.Left)
			}
		}
	}
	return sum
}
