// Package parts does each operation of a lease on all groups of nodes that its keys belong to.
//
// A lease has one part for each place of its keys: a multiplex.Claim with some of the keys. All
// parts have the same token, and no two have a node in common. The lease is granted when each part
// is, it is lost when any part is, and it is released when each part is. So each part follows the
// rules of package multiplex by itself, and this package adds the votes of no two nodes.
//
// Most leases have one part. That costs nothing here: its attempts are those of package multiplex.
// Layout says where keys are, and is pure.
package parts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/holders"
	"github.com/lockpipe/lockpipe/internal/line"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Mux is a multiplex.Mux for each group of nodes. Groups that share nodes while the fleet moves
// have one together. All methods are safe for concurrent use.
type Mux struct {
	Layout *Layout
	Fleet  *fleet.Fleet
	Muxes  []*multiplex.Mux // of Layout.Sites

	prefix string
}

// New starts to connect the nodes of all groups in the background. It calls prepare for each
// multiplex.Mux, by its index, before that is made: prepare may set the functions of the Config.
// The error is about the nodes alone.
func New(nodes *Nodes, prepare func(group int, of *multiplex.Config)) (*Mux, error) {
	cfg := nodes.Config.Config
	m := &Mux{Layout: nodes.Layout, prefix: cfg.Prefix}
	m.Fleet = fleet.New(fleet.Config{
		Layouts: nodes.Layouts, Owner: nodes.Config.Owner, MaxTTL: cfg.MaxTTL, Logger: cfg.Logger,
	})
	cfg.Fleet = m.Fleet
	for i, of := range m.Layout.Sites {
		cfg.Nodes, cfg.Systems = nil, of.Systems
		for _, name := range of.Nodes {
			cfg.Nodes = append(cfg.Nodes, nodes.Endpoints[name])
		}
		prepare(i, &cfg)
		mux, err := multiplex.New(cfg)
		if err != nil {
			_ = m.Close(context.Background())
			return nil, fmt.Errorf("node %w", err) // which Read could not see
		}
		m.Muxes = append(m.Muxes, mux)
		for _, at := range of.places {
			at.mux = mux
		}
	}
	return m, nil
}

// sets returns the sets of nodes in each of which the keys of a place need a quorum.
func (m *Mux) sets(at *Place) []quorum.Nodes {
	return m.Layout.Sites[at.Site].Systems[at.System]
}

// side is one of the sets of nodes in which a key needs a quorum: of one group, or of two.
type side struct {
	at  *Place
	set int // of the place's system
}

// sides returns the sides of a key: one, or two while the fleet moves.
func (m *Mux) sides(key string) (all []side) {
	for _, at := range m.Layout.Places(key) {
		for set := range m.sets(at) {
			all = append(all, side{at, set})
		}
	}
	return all
}

// Side returns the side of a key on which these nodes refused it, by their addresses: where
// contenders for it meet. If several sides have all of them, it is the last one that was found. If
// none has, it is the first.
func (m *Mux) Side(key string, refused []string, last int) int {
	on, having := 0, 0
	for i, s := range m.sides(key) {
		mux, nodes := s.at.mux, m.sets(s.at)[s.set]
		if !slices.ContainsFunc(refused, func(name string) bool { return !mux.Has(nodes, name) }) {
			on = i
			having++
		}
	}
	if having > 1 {
		return last
	}
	return on
}

// Arbiter chooses the node that has the line for a key, given without the prefix, on one of its
// sides, or on its last one: see multiplex.Mux.Arbiter. nil: none is connected.
func (m *Mux) Arbiter(key string, on, skip int) *line.Node {
	sides := m.sides(key)
	s := sides[min(on, len(sides)-1)]
	return s.at.mux.Arbiter(uint8(s.at.System), s.set, m.prefix+key, skip)
}

// Lacking returns the index of a group of these keys that has no quorum that can grant. If there is
// none, lacks is false, and it is the first group of the first key.
func (m *Mux) Lacking(keys []string) (group int, lacks bool) {
	for _, key := range keys {
		for _, at := range m.Layout.Places(key) {
			if !at.mux.CanGrantIn(uint8(at.System)) {
				return at.Site, true
			}
		}
	}
	return m.Layout.Places(keys[0])[0].Site, false
}

// Nodes returns the state of each node, in configuration order, and the names of their groups.
func (m *Mux) Nodes() (nodes []multiplex.NodeStatus, groups []string) {
	for i, mux := range m.Muxes {
		nodes = append(nodes, mux.Nodes()...)
		groups = append(groups, m.Layout.Sites[i].Groups...)
	}
	return nodes, groups
}

// Sets returns the states of the nodes of each set in which a quorum is needed, of all groups.
func (m *Mux) Sets() (all [][]holders.Node) {
	for group, mux := range m.Muxes {
		var nodes []holders.Node
		for _, n := range mux.Nodes() {
			nodes = append(nodes, holders.Node{Name: n.Addr, State: n.State, Err: n.Err})
		}
		sets := quorum.Distinct(m.Layout.Sites[group].Systems...)
		all = append(all, subsets(sets, nodes)...)
	}
	return all
}

// subsets returns the nodes that each of the sets has.
func subsets(sets []quorum.Nodes, all []holders.Node) [][]holders.Node {
	some := make([][]holders.Node, len(sets))
	for i, set := range sets {
		for ; set != 0; set &= set - 1 {
			some[i] = append(some[i], all[set.Lowest()])
		}
	}
	return some
}

// Close closes every multiplex.Mux. It may be called once.
func (m *Mux) Close(ctx context.Context) error {
	return m.each(func(_ int, mux *multiplex.Mux) error { return mux.Close(ctx) })
}

// each calls f for every Mux at the same time, and waits for all. It returns the first error in
// their order.
func (m *Mux) each(f func(i int, mux *multiplex.Mux) error) error {
	if len(m.Muxes) == 1 {
		return f(0, m.Muxes[0])
	}
	errs := make([]error, len(m.Muxes))
	var all sync.WaitGroup
	for i, mux := range m.Muxes {
		all.Go(func() { errs[i] = f(i, mux) })
	}
	all.Wait()
	return cmp.Or(errs...)
}
