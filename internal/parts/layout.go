package parts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Layout says which nodes a key belongs to: those of its group, and while the fleet moves, those of
// its group in the next layout as well. It does not change, and any goroutine may use it.
type Layout struct {
	// Sites has the nodes. Groups that share nodes are in one Site, so each node is in one.
	Sites []Site

	now, next []string   // the names of the groups; next is nil unless the fleet moves
	places    [][]*Place // of each pair of now and next
}

// Site has the nodes of a group, and of all groups that share nodes with it: of one multiplex.Mux.
type Site struct {
	Nodes []string
	// Group is the name of the group that each node is in: that of the present layout, if it is in
	// both.
	Groups []string
	// Systems are the quorums that keys need here. A system is one set of nodes, or two: a key
	// needs a quorum in each.
	Systems [][]quorum.Nodes
	places  []*Place // of each system
}

// Place is where a part of the keys is: a system of a Site, by their indexes. A claim with several
// parts has a copy of that of its first part. Claims with one part share theirs.
type Place struct {
	Site, System int

	mux *multiplex.Mux // of the Site; set by New
	ids []int64        // a number for each set of the system: see ids.Handle

	// Of the first part of a claim that has several.
	keys []string // of all parts, in the order of the call
	more []part   // the parts behind the first
}

// NewLayout returns the layout of these groups. next are those that the fleet is moving to; nil if
// it does not move. In each of the two, names differ, and no node is in two groups. The error says
// that there are too many groups that share nodes.
func NewLayout(groups, next []fleet.Group) (*Layout, error) {
	l := &Layout{now: names(groups), next: names(next)}
	l.makeSites(slices.Concat(groups, next))
	for _, g := range groups {
		site, nodes := l.find(g)
		if len(next) == 0 {
			l.places = append(l.places, []*Place{l.place(site, nodes)})
		}
		for _, n := range next {
			nextSite, nextNodes := l.find(n)
			switch {
			case site != nextSite: // no node is in both
				l.places = append(l.places, []*Place{
					l.place(site, nodes), l.place(nextSite, nextNodes),
				})
			case nodes == nextNodes:
				l.places = append(l.places, []*Place{l.place(site, nodes)})
			default:
				l.places = append(l.places, []*Place{l.place(site, nodes, nextNodes)})
			}
		}
	}
	for _, s := range l.Sites {
		if len(s.Nodes) > quorum.MaxNodes || len(s.Systems) > quorum.MaxSystems {
			return nil, fmt.Errorf("have %d different nodes in groups that share nodes: at most "+
				"%d can be moved at once", len(s.Nodes), quorum.MaxNodes)
		}
	}
	return l, nil
}

func names(groups []fleet.Group) (names []string) {
	for _, g := range groups {
		names = append(names, g.Name)
	}
	return names
}

// makeSites puts groups that share nodes into one Site, in the order of their first nodes.
func (l *Layout) makeSites(groups []fleet.Group) {
	for _, g := range groups {
		into := Site{}
		at := -1
		for i := 0; i < len(l.Sites); i++ {
			if !sharesNode(l.Sites[i].Nodes, g.Nodes) {
				continue
			}
			into.Nodes = append(into.Nodes, l.Sites[i].Nodes...)
			into.Groups = append(into.Groups, l.Sites[i].Groups...)
			if l.Sites = slices.Delete(l.Sites, i, i+1); at < 0 {
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
			at = len(l.Sites)
		}
		l.Sites = slices.Insert(l.Sites, at, into)
	}
}

func sharesNode(a, b []string) bool {
	return slices.ContainsFunc(a, func(n string) bool { return slices.Contains(b, n) })
}

// find returns the Site of a group, and its nodes there.
func (l *Layout) find(g fleet.Group) (site int, nodes quorum.Nodes) {
	site = slices.IndexFunc(l.Sites, func(s Site) bool { return sharesNode(s.Nodes, g.Nodes) })
	for _, n := range g.Nodes {
		nodes |= quorum.Node(slices.Index(l.Sites[site].Nodes, n))
	}
	return site, nodes
}

// place returns the place of keys that need a quorum in each of these sets. The numbers of the sets
// do not depend on the order of the nodes.
func (l *Layout) place(site int, sets ...quorum.Nodes) *Place {
	s := &l.Sites[site]
	same := func(system []quorum.Nodes) bool { return slices.Equal(system, sets) }
	if system := slices.IndexFunc(s.Systems, same); system >= 0 {
		return s.places[system]
	}
	p := &Place{Site: site, System: len(s.Systems)}
	for _, set := range sets {
		id := uint64(0)
		for ; set != 0; set &= set - 1 {
			id += ids.Weight(s.Nodes[set.Lowest()], "")
		}
		p.ids = append(p.ids, int64(id))
	}
	s.Systems, s.places = append(s.Systems, sets), append(s.places, p)
	return p
}

// Group returns the name of the group that a key belongs to now.
func (l *Layout) Group(key string) string { return l.now[choose(key, l.now)] }

// Places returns where a key is: one place, or two while the fleet moves. The slice is not to be
// changed.
func (l *Layout) Places(key string) []*Place {
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
