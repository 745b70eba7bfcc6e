package layout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/quorum"
)

// Layout says which nodes a key belongs to: those of its group, and while the fleet moves, those of
// its group in the next layout as well. It does not change, and any goroutine may use it.
type Layout struct {
	// Muxes has the nodes. Groups that share nodes are in one Mux, so each node is in one.
	Muxes []Mux

	now, next []string  // the names of the groups; next is nil unless the fleet moves
	places    [][]Place // of each pair of now and next
}

// Mux has the nodes of a group, and of all groups that share nodes with it.
type Mux struct {
	Nodes []string
	// Group is the name of the group that each node is in: that of the present layout, if it is in
	// both.
	Groups []string
	// Systems are the quorums that keys need here. A system is one set of nodes, or two: a key
	// needs a quorum in each.
	Systems [][]quorum.Nodes
}

// Place is where a part of the keys is: a system of a Mux, by their indexes.
type Place struct{ Mux, System int }

// New returns the layout of these groups. next are those that the fleet is moving to; nil if it
// does not move. In each of the two, names differ, and no node is in two groups. The error says
// that there are too many groups that share nodes.
func New(groups, next []Group) (*Layout, error) {
	l := &Layout{now: names(groups), next: names(next)}
	l.makeMuxes(slices.Concat(groups, next))
	for _, g := range groups {
		mux, nodes := l.find(g)
		if len(next) == 0 {
			l.places = append(l.places, []Place{l.place(mux, nodes)})
		}
		for _, n := range next {
			nextMux, nextNodes := l.find(n)
			switch {
			case mux != nextMux: // no node is in both
				l.places = append(l.places, []Place{
					l.place(mux, nodes), l.place(nextMux, nextNodes),
				})
			case nodes == nextNodes:
				l.places = append(l.places, []Place{l.place(mux, nodes)})
			default:
				l.places = append(l.places, []Place{l.place(mux, nodes, nextNodes)})
			}
		}
	}
	for _, m := range l.Muxes {
		if len(m.Nodes) > quorum.MaxNodes || len(m.Systems) > quorum.MaxSystems {
			return nil, fmt.Errorf("have %d different nodes in groups that share nodes: at most "+
				"%d can be moved at once", len(m.Nodes), quorum.MaxNodes)
		}
	}
	return l, nil
}

func names(groups []Group) (names []string) {
	for _, g := range groups {
		names = append(names, g.Name)
	}
	return names
}

// makeMuxes puts groups that share nodes into one Mux, in the order of their first nodes.
func (l *Layout) makeMuxes(groups []Group) {
	for _, g := range groups {
		into := Mux{}
		at := -1
		for i := 0; i < len(l.Muxes); i++ {
			if !sharesNode(l.Muxes[i].Nodes, g.Nodes) {
				continue
			}
			into.Nodes = append(into.Nodes, l.Muxes[i].Nodes...)
			into.Groups = append(into.Groups, l.Muxes[i].Groups...)
			if l.Muxes = slices.Delete(l.Muxes, i, i+1); at < 0 {
				at = i
			}
			i--
		}
		for _, n := range g.Nodes {
			if !slices.Contains(into.Nodes, n) {
				into.Nodes, into.Groups = append(into.Nodes, n), append(into.Groups, g.Name)
			}
		}
		if at < 0 {
			at = len(l.Muxes)
		}
		l.Muxes = slices.Insert(l.Muxes, at, into)
	}
}

func sharesNode(a, b []string) bool {
	return slices.ContainsFunc(a, func(n string) bool { return slices.Contains(b, n) })
}

// find returns the Mux of a group, and its nodes there.
func (l *Layout) find(g Group) (mux int, nodes quorum.Nodes) {
	mux = slices.IndexFunc(l.Muxes, func(m Mux) bool { return sharesNode(m.Nodes, g.Nodes) })
	for _, n := range g.Nodes {
		nodes |= quorum.Node(slices.Index(l.Muxes[mux].Nodes, n))
	}
	return mux, nodes
}

// place returns the place of keys that need a quorum in each of these sets.
func (l *Layout) place(mux int, sets ...quorum.Nodes) Place {
	m := &l.Muxes[mux]
	same := func(system []quorum.Nodes) bool { return slices.Equal(system, sets) }
	system := slices.IndexFunc(m.Systems, same)
	if system < 0 {
		system = len(m.Systems)
		m.Systems = append(m.Systems, sets)
	}
	return Place{mux, system}
}

// Group returns the name of the group that a key belongs to now.
func (l *Layout) Group(key string) string { return l.now[choose(key, l.now)] }

// Places returns where a key is: one place, or two while the fleet moves. The slice is not to be
// changed.
func (l *Layout) Places(key string) []Place {
	at := choose(key, l.now)
	if len(l.next) > 0 {
		at = at*len(l.next) + choose(key, l.next)
	}
	return l.places[at]
}

// choose returns the index of the name with the highest weight for the key, or for the part of it
// in braces.
func choose(key string, names []string) (best int) {
	if len(names) == 1 {
		return 0
	}
	key = tag(key)
	highest := uint64(0)
	for i, name := range names {
		if w := ids.Weight(key, name); w > highest || i == 0 {
			best, highest = i, w
		}
	}
	return best
}

// tag returns what places a key: what is between its first { and the next }, if that is not empty,
// as in a Redis Cluster; otherwise the whole key.
func tag(key string) string {
	if _, behind, ok := strings.Cut(key, "{"); ok {
		if inside, _, ok := strings.Cut(behind, "}"); ok && inside != "" {
			return inside
		}
	}
	return key
}
