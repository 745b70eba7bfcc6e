package parts

import (
	"context"
	"slices"

	"github.com/lockpipe/lockpipe/internal/holders"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Answers is what the nodes of each group say of its keys.
type Answers []answers

// answers is what the nodes of one group say of keys.
type answers struct {
	nodes []holders.Node
	at    map[string]asked
}

// asked is a key that the nodes of a group were asked about.
type asked struct {
	index int            // in their answers
	sets  []quorum.Nodes // in which the key needs a quorum
}

// Peek asks the nodes who has these keys, given without the prefix, each those of its groups: see
// multiplex.Mux.Peek. No two keys are the same.
func (m *Mux) Peek(ctx context.Context, keys []string) (Answers, error) {
	return m.ask(ctx, keys, true, func(*answers) bool { return false })
}

// ask is Peek, but it waits for no further node of a group when its answers are enough. lines: it
// asks for the length of the lines too.
func (m *Mux) ask(ctx context.Context, keys []string, lines bool, enough func(*answers) bool) (
	Answers, error,
) {
	all := make(Answers, len(m.Muxes))
	names, lineNames := make([][]string, len(m.Muxes)), make([][]string, len(m.Muxes))
	for _, key := range keys {
		for _, place := range m.Layout.Places(key) {
			group := place.Site
			if all[group].at == nil {
				all[group].at = make(map[string]asked)
			}
			all[group].at[key] = asked{len(names[group]), m.sets(place)}
			names[group] = append(names[group], m.prefix+key)
			if lines {
				lineNames[group] = append(lineNames[group], m.prefix+ids.LineKey+key)
			}
		}
	}
	err := m.each(func(i int, mux *multiplex.Mux) (err error) {
		if len(names[i]) > 0 {
			suffice := func(nodes []holders.Node) bool {
				all[i].nodes = nodes
				return enough(&all[i])
			}
			all[i].nodes, err = mux.Peek(ctx, names[i], lineNames[i], suffice)
		}
		return err
	})
	return all, err
}

// Sets returns the nodes of each set in which a quorum has to answer: those of the keys.
func (all Answers) Sets() (nodes [][]holders.Node) {
	for _, a := range all {
		var sets []quorum.Nodes
		for _, key := range a.at {
			sets = append(sets, key.sets...)
		}
		slices.Sort(sets)
		nodes = append(nodes, subsets(slices.Compact(sets), a.nodes)...)
	}
	return nodes
}

// Count returns what the nodes say of a key: see holders.Count. It is held if it is held in any set
// of those in which it needs a quorum: nobody else gets it then. If one holder has it in several,
// Left is until the first of them is over.
func (all Answers) Count(key string) (sum holders.Holding) {
	for _, a := range all {
		at, has := a.at[key]
		if !has {
			continue
		}
		of := holders.Count(a.nodes, at.index, len(a.nodes))
		sum.Nodes, sum.Waiting = max(sum.Nodes, of.Nodes), max(sum.Waiting, of.Waiting)
		for _, nodes := range subsets(at.sets, a.nodes) {
			h := holders.Count(nodes, at.index, quorum.Need(len(nodes)))
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
