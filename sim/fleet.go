package sim

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/parts"
)

// nodeGroups are groups of nodes, by their numbers. nil stands for one group of all nodes.
type nodeGroups [][]int

// clientLayout says which nodes a client uses, and for which keys.
type clientLayout struct {
	groups, next nodeGroups
	places       *parts.Layout
	maxTTL       time.Duration // of the client
}

func newClientLayout(addresses []string, groups, next nodeGroups) clientLayout {
	named := groups.named(addresses)
	if groups == nil {
		named = []fleet.Group{{Nodes: addresses}}
	}
	places, err := parts.NewLayout(named, next.named(addresses))
	if err != nil {
		panic(err)
	}
	return clientLayout{groups: groups, next: next, places: places}
}

// drawTTL returns a TTL for a lease of the client.
func (l clientLayout) drawTTL(p *Plan, rng *rand.Rand) time.Duration {
	return min(p.drawTTL(rng), l.maxTTL)
}

// configure sets the nodes of a client.
func (l clientLayout) configure(cfg *lockpipe.Config, addresses []string) {
	list := func(groups nodeGroups) (all []lockpipe.Group) {
		for _, g := range groups.named(addresses) {
			all = append(all, lockpipe.Group(g))
		}
		return all
	}
	if cfg.Groups, cfg.Next = list(l.groups), list(l.next); l.groups == nil {
		cfg.Nodes = addresses
	}
}

// named returns the groups with their names and addresses.
func (g nodeGroups) named(addresses []string) (all []fleet.Group) {
	for i, nodes := range g {
		one := fleet.Group{Name: fmt.Sprint("g", i)}
		for _, n := range nodes {
			one.Nodes = append(one.Nodes, addresses[n])
		}
		all = append(all, one)
	}
	return all
}

// sets returns the sets of nodes in which a key needs a quorum.
func (l clientLayout) sets(key string, addresses []string) (sets [][]int) {
	for _, at := range l.places.Places(key) {
		site := l.places.Sites[at.Site]
		for _, set := range site.Systems[at.System] {
			var nodes []int
			for ; set != 0; set &= set - 1 {
				name := site.Nodes[set.Lowest()]
				nodes = append(nodes, slices.Index(addresses, name))
			}
			sets = append(sets, nodes)
		}
	}
	return sets
}

// quorumBacks reports whether a quorum of each set of nodes in which a key needs one is among those
// for which has is true.
func (l clientLayout) quorumBacks(key string, addresses []string, has func(node int) bool) bool {
	return !slices.ContainsFunc(l.sets(key, addresses), func(set []int) bool {
		count := 0
		for _, n := range set {
			if has(n) {
				count++
			}
		}
		return count <= len(set)/2
	})
}

// firstUsePossible reports whether some group has no node with a marker. A new client takes that
// for the first use.
func (l clientLayout) firstUsePossible(hasMarker func(node int) bool) bool {
	groups := l.groups
	if groups == nil {
		all := []int{0, 1, 2, 3, 4}
		groups = nodeGroups{all[:len(l.places.Sites[0].Nodes)]}
	}
	return slices.ContainsFunc(groups, func(g []int) bool {
		return !slices.ContainsFunc(g, hasMarker)
	})
}

// drawLayouts draws layouts of several groups, and fleets that move from one to another.
func (p *Plan) drawLayouts(rng *rand.Rand) {
	moves := p.wants(rng, p.mix.Moving)
	if !moves && !p.wants(rng, p.mix.Grouped) || p.mix.Admitting || p.aliasEvery > 0 {
		return
	}
	if p.virgin || p.mixed {
		return // these have groups, or losses, that leave a quorum of all nodes
	}
	if moves && p.lossEvery > 0 && p.mix.Moving {
		p.lossEvery = 0 // a new layout looks like one whose nodes have all lost their data
	}
	p.layouts = []nodeGroups{drawGroups(rng)}
	if !moves || p.lossEvery > 0 {
		return
	}
	for range 1 + rng.IntN(3) {
		if g := drawGroups(rng); !sameGroups(g, p.layouts[len(p.layouts)-1]) {
			p.layouts = append(p.layouts, g)
		}
	}
	times := []time.Duration{500 * time.Millisecond, time.Second, 3 * time.Second}
	p.clientMaxTTL = times[rng.IntN(len(times))]
	p.minTTL, p.maxTTL = min(p.minTTL, p.clientMaxTTL/2), p.clientMaxTTL
	p.length += time.Duration(len(p.layouts)) * (2*p.clientMaxTTL + 3*time.Second)
	// New nodes know no fences, and only clocks keep the order: see docs/guarantees.md.
	p.clockSkew = min(p.clockSkew, p.clientMaxTTL*3/4-1)
}

// drawGroups draws groups of some of the nodes.
func drawGroups(rng *rand.Rand) (groups nodeGroups) {
	order := rng.Perm(nodes)
	for len(order) > 0 && len(groups) < 3 {
		n := 1 + rng.IntN(len(order))
		if rng.IntN(2) == 0 {
			n = min(n, 3)
		}
		groups = append(groups, order[:n])
		if order = order[n:]; rng.IntN(3) == 0 {
			break
		}
	}
	return groups
}

// sameGroups reports whether two layouts place keys alike, which is no move.
func sameGroups(a, b nodeGroups) bool {
	addresses := strings.Split("abcde", "")
	return reflect.DeepEqual(fleet.Sorted(a.named(addresses)), fleet.Sorted(b.named(addresses)))
}

// move moves the fleet from layout to layout, as docs/moving.md says: every client gets the next
// one in addition, and when the leases of the others have ended, every client gets it alone.
func (r *run) move(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 6))
	for i := 1; i < len(r.plan.layouts); i++ {
		from, to := r.plan.layouts[i-1], r.plan.layouts[i]
		both, alone := newClientLayout(r.addresses, from, to), newClientLayout(r.addresses, to, nil)
		if !r.roll(rng, both) || !r.sleep(r.plan.clientMaxTTL+r.plan.driftMargin()) ||
			!r.roll(rng, alone) {
			return
		}
	}
}

// roll gives every process a client of a layout, one process after the other. It returns false if
// the run ends first.
func (r *run) roll(rng *rand.Rand, l clientLayout) bool {
	for _, i := range rng.Perm(len(r.processes)) {
		if !r.sleep(around(rng, 300*time.Millisecond)) {
			return false
		}
		p := r.processes[i]
		p.setLayout(l)
		if !p.restartClient(around(rng, 200*time.Millisecond)) {
			return false
		}
	}
	return true
}

// firstLayout returns the layout that clients have at first.
func (r *run) firstLayout() clientLayout {
	if len(r.plan.layouts) == 0 {
		return newClientLayout(r.names, nil, nil)
	}
	return newClientLayout(r.addresses, r.plan.layouts[0], nil)
}

// hasMarker reports whether the guard's key of a node rules out a first use: it is the name of a
// memory, or a record by somebody who knows the node.
func (r *run) hasMarker(node int) bool {
	text, _ := r.guardKey(node)
	return text != "" && (r.allKnew.Load() || !strings.HasPrefix(text, "new:"))
}

// guardKey returns what the guard's key of a node is, and until when it lasts.
func (r *run) guardKey(node int) (text string, until time.Time) {
	if r.cluster != nil {
		return r.cluster.guardKey(node)
	}
	return r.server(node).KeyUntil(prefix + ids.AdmittedKey)
}
