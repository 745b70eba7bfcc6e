// Package parts does each operation of a lease on all groups of nodes that its keys belong to.
//
// A lease has one part for each place of its keys: a multiplex.Claim with some of the keys. All
// parts have the same token, and no two have a node in common. The lease is granted when each part
// is, it is lost when any part is, and it is released when each part is. So each part follows the
// rules of package multiplex by itself, and this package adds the votes of no two nodes.
//
// Most leases have one part. That costs nothing here: its attempts are those of package multiplex.
package parts

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/layout"
	"github.com/lockpipe/lockpipe/internal/line"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Mux is a multiplex.Mux for each group of nodes. Groups that share nodes while the fleet moves
// have one together. All methods are safe for concurrent use.
type Mux struct {
	layout *layout.Layout
	fleet  *fleet.Fleet
	prefix string
	muxes  []*multiplex.Mux // as in the layout
	// places are those of parts that are alone, by Mux and system. They do not change.
	places [][]place
}

// place is where a claim has its parts.
type place struct {
	group int // the index of the first part's Mux
	mux   *multiplex.Mux
	// Of a claim of several parts; nil for one part.
	keys []string // all of them, in the order of the call
	more []part   // the parts behind the first
}

// part is one of the further parts of a claim.
type part struct {
	group int
	mux   *multiplex.Mux
	claim multiplex.Claim
}

// Owner is notified of the nodes of a group, by its index: see the functions of multiplex.Config.
// It may be notified before New has returned.
type Owner interface {
	QuorumReachable(group int)
	NodeAdmitted(group int)
	AllExtended(group int) bool
}

// New starts to connect the nodes of all groups in the background. cfg is for each multiplex.Mux.
// New sets its Nodes, Systems and Fleet, and its functions to those of the owner. The error is
// about the nodes alone, and names them.
func New(nodes *Nodes, cfg multiplex.Config, owner Owner) (*Mux, error) {
	m := &Mux{layout: nodes.layout, prefix: cfg.Prefix}
	m.fleet = fleet.New(fleet.Config{
		Layouts: nodes.layouts, Owner: nodes.cfg.Owner, MaxTTL: cfg.MaxTTL, Logger: cfg.Logger,
	})
	cfg.Fleet = m.fleet
	for i, of := range m.layout.Muxes {
		cfg.Nodes = make([]string, len(of.Nodes))
		for j, name := range of.Nodes {
			cfg.Nodes[j] = nodes.urls[name]
		}
		cfg.Systems = of.Systems
		cfg.OnQuorumReachable = func() { owner.QuorumReachable(i) }
		cfg.OnAdmitted = func() { owner.NodeAdmitted(i) }
		cfg.AllExtended = func() bool { return owner.AllExtended(i) }
		mux, err := multiplex.New(cfg)
		if err != nil {
			_ = m.Close(context.Background())
			return nil, fmt.Errorf("%s%w", nodes.fieldOf(i), err)
		}
		m.muxes = append(m.muxes, mux)
		places := make([]place, len(of.Systems))
		for s := range places {
			places[s] = place{group: i, mux: mux}
		}
		m.places = append(m.places, places)
	}
	return m, nil
}

// GroupOf returns the name of the group that a key belongs to now, given without the prefix.
func (m *Mux) GroupOf(key string) string { return m.layout.Group(key) }

// ForeignLayouts returns how many layouts are in use now that exclude nothing of the client's.
func (m *Mux) ForeignLayouts() int { return m.fleet.Foreign() }

// first returns the first place of a key.
func (m *Mux) first(key string) layout.Place { return m.layout.Places(key)[0] }

// Acquire starts one attempt to take all keys of a new claim for ttl: see multiplex.Mux.Acquire.
// All parts are asked at once.
func (m *Mux) Acquire(c *Claim, ttl time.Duration, batchKeys int) Attempt {
	if len(c.at.more) == 0 {
		return c.at.mux.Acquire(&c.first, ttl, batchKeys)
	}
	return c.start(acquiring, func(p *one) { p.attempt = p.mux.Acquire(p.claim, ttl, batchKeys) })
}

// Extend starts one attempt to let all keys of a claim last for ttl: see multiplex.Mux.Extend. It
// is won when each part is, and held when any part is.
func (m *Mux) Extend(c *Claim, ttl time.Duration, sendBefore time.Time, minTimeout time.Duration,
	batchKeys int,
) Attempt {
	if len(c.at.more) == 0 {
		return c.at.mux.Extend(&c.first, ttl, sendBefore, minTimeout, batchKeys)
	}
	ask := func(p *one) {
		p.attempt = p.mux.Extend(p.claim, ttl, sendBefore, minTimeout, batchKeys)
	}
	return c.startExtending(ask, ask)
}

// Release starts to delete the keys of a claim: see multiplex.Mux.Release. It is won when each part
// is.
func (m *Mux) Release(c *Claim, batchKeys int) Attempt {
	if len(c.at.more) == 0 {
		return c.at.mux.Release(&c.first, batchKeys)
	}
	return c.start(releasing, func(p *one) { p.attempt = p.mux.Release(p.claim, batchKeys) })
}

// Extensions are extensions that leave together: see multiplex.Extensions.
type Extensions struct {
	mux  *Mux
	keys int
	of   []*multiplex.Extensions // of each Mux; nil before the first
}

// Extensions returns none yet. keys is the number of keys of all that will be added.
func (m *Mux) Extensions(keys int) *Extensions {
	return &Extensions{m, keys, make([]*multiplex.Extensions, len(m.muxes))}
}

// Add adds an extension of a claim: see multiplex.Extensions.Add.
func (e *Extensions) Add(c *Claim, ttl time.Duration, sendBefore time.Time,
	minTimeout time.Duration,
) Attempt {
	if len(c.at.more) == 0 {
		return e.in(c.at.group).Add(&c.first, ttl, sendBefore, minTimeout)
	}
	return c.startExtending(func(p *one) {
		p.attempt = e.in(p.group).Add(p.claim, ttl, sendBefore, minTimeout)
	}, func(p *one) {
		p.attempt = p.mux.Extend(p.claim, ttl, sendBefore, minTimeout, e.keys)
	})
}

// in returns the extensions of one Mux.
func (e *Extensions) in(group int) *multiplex.Extensions {
	if e.of[group] == nil {
		e.of[group] = e.mux.muxes[group].Extensions(e.keys)
	}
	return e.of[group]
}

// Send sends what was added. It must be called, because Mux.Close waits for that.
func (e *Extensions) Send() {
	for _, of := range e.of {
		if of != nil {
			of.Send()
		}
	}
}

// Watch returns a watch of one key, given without the prefix: see multiplex.Mux.Watch. If ticket is
// not 0, it is a watch of the turn of this ticket in the line for the key. Its nodes are those of
// the key's first group, and behind them those of the second, if it has two.
func (m *Mux) Watch(key string, ticket int64, wake func()) *multiplex.Watch {
	at, name := m.layout.Places(key), m.prefix+key
	if ticket != 0 {
		name = m.prefix + ids.TurnOf(key, ticket)
	}
	if len(at) > 1 {
		return m.muxes[at[0].Mux].WatchBoth(m.muxes[at[1].Mux], name, wake)
	}
	return m.muxes[at[0].Mux].Watch(name, wake)
}

// AskLine asks a node about the line for a key. The number is that of a node of Watch.
func (m *Mux) AskLine(node int, a line.Ask) {
	group, number := m.groupOfNode(a.Key, node)
	m.muxes[group].AskLine(number, a)
}

// side is one of the sets of nodes in which a key needs a quorum: of one group, or of two.
type side struct {
	at    layout.Place
	set   int // of the place's system
	nodes int // how many nodes of Watch are before those of the group
}

// sides returns the sides of a key: one, or two while the fleet moves.
func (m *Mux) sides(key string) (all []side) {
	nodes := 0
	for _, at := range m.layout.Places(key) {
		for set := range quorum.Distinct(m.layout.Muxes[at.Mux].Systems[at.System]) {
			all = append(all, side{at, set, nodes})
		}
		nodes += len(m.layout.Muxes[at.Mux].Nodes)
	}
	return all
}

// Side returns the side of a key on which these nodes refused it, by their addresses: where
// contenders for it meet. If several sides have all of them, it is the last one that was found. If
// none has, it is the first.
func (m *Mux) Side(key string, refused []string, last int) int {
	on, having := 0, 0
	for i, s := range m.sides(key) {
		mux, others := m.muxes[s.at.Mux], m.layout.Muxes[s.at.Mux].Systems[s.at.System][s.set]
		if !slices.ContainsFunc(refused, func(name string) bool { return !mux.Has(others, name) }) {
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
// sides, or on its last one: see multiplex.Mux.Arbiter. The number is that of a node of Watch.
func (m *Mux) Arbiter(key string, on, skip int) int {
	sides := m.sides(key)
	at := sides[min(on, len(sides)-1)]
	node := m.muxes[at.at.Mux].Arbiter(uint8(at.at.System), at.set, m.prefix+key, skip)
	if node < 0 {
		return node
	}
	return at.nodes + node
}

// groupOfNode returns the group of a node of Watch, and the node's number there.
func (m *Mux) groupOfNode(key string, node int) (group, number int) {
	at := m.layout.Places(key)
	if first := len(m.layout.Muxes[at[0].Mux].Nodes); node >= first && len(at) > 1 {
		return at[1].Mux, node - first
	}
	return at[0].Mux, node
}

// QuorumReachable reports whether the group can reach a quorum: see
// multiplex.Mux.QuorumReachable.
func (m *Mux) QuorumReachable(group int) bool { return m.muxes[group].QuorumReachable() }

// CanGrant reports whether a quorum of the group may grant: see multiplex.Mux.CanGrant.
func (m *Mux) CanGrant(group int) bool { return m.muxes[group].CanGrant() }

// SeveralReachable reports whether two places can reach a quorum. A claim of several parts needs
// one at each of its places, and two of them may be in one group while the fleet moves.
func (m *Mux) SeveralReachable() bool {
	reachable := 0
	for i, mux := range m.muxes {
		for s := range m.places[i] {
			if mux.QuorumReachableIn(uint8(s)) {
				if reachable++; reachable == 2 {
					return true
				}
			}
		}
	}
	return false
}

// Lacking returns the index of a group of these keys that has no quorum that can grant. If there is
// none, lacks is false, and it is the first group of the first key.
func (m *Mux) Lacking(keys []string) (group int, lacks bool) {
	for _, key := range keys {
		for _, at := range m.layout.Places(key) {
			if !m.muxes[at.Mux].CanGrantIn(uint8(at.System)) {
				return at.Mux, true
			}
		}
	}
	return m.first(keys[0]).Mux, false
}

// Nodes returns the state of each node, in configuration order, and the names of their groups.
func (m *Mux) Nodes() (nodes []multiplex.NodeStatus, groups []string) {
	for i, mux := range m.muxes {
		nodes = append(nodes, mux.Nodes()...)
		groups = append(groups, m.layout.Muxes[i].Groups...)
	}
	return nodes, groups
}

// Sets returns the nodes of each set in which a quorum is needed, of all groups.
func (m *Mux) Sets() (all [][]multiplex.NodeStatus) {
	for group, mux := range m.muxes {
		sets := quorum.Distinct(m.layout.Muxes[group].Systems...)
		all = append(all, subsets(sets, mux.Nodes())...)
	}
	return all
}

// subsets returns the elements of all that each of the sets has.
func subsets[T any](sets []quorum.Nodes, all []T) [][]T {
	some := make([][]T, len(sets))
	for i, set := range sets {
		for ; set != 0; set &= set - 1 {
			some[i] = append(some[i], all[set.Lowest()])
		}
	}
	return some
}

// SpareNodes returns how many nodes are up beyond a quorum, in the set that has the fewest: see
// multiplex.Mux.SpareNodes.
func (m *Mux) SpareNodes() int {
	spare := math.MaxInt
	for _, mux := range m.muxes {
		spare = min(spare, mux.SpareNodes())
	}
	return spare
}

// Attempts returns the sums of multiplex.Mux.Attempts.
func (m *Mux) Attempts() (sent, splitVotes uint64) {
	for _, mux := range m.muxes {
		s, split := mux.Attempts()
		sent, splitVotes = sent+s, splitVotes+split
	}
	return sent, splitVotes
}

// Close closes every multiplex.Mux. It may be called once.
func (m *Mux) Close(ctx context.Context) error {
	return m.each(func(_ int, mux *multiplex.Mux) error { return mux.Close(ctx) })
}

// each calls f for every Mux at the same time, and waits for all. It returns the first error in
// their order.
func (m *Mux) each(f func(i int, mux *multiplex.Mux) error) error {
	if len(m.muxes) == 1 {
		return f(0, m.muxes[0])
	}
	errs := make([]error, len(m.muxes))
	var all sync.WaitGroup
	for i, mux := range m.muxes {
		all.Go(func() { errs[i] = f(i, mux) })
	}
	all.Wait()
	return cmp.Or(errs...)
}
