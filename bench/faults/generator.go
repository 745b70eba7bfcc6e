package faults

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// A random fault lasts for a time between these: shorter and longer than a Client needs to
	// notice a silent node.
	shortestFault = 200 * time.Millisecond
	longestFault  = 3 * time.Second
	// recovery is the time for Clients to connect to a node again.
	recovery = time.Second
	// deposedFor is how much longer than the longest TTL the new master of a slot waits, and a
	// second or two in which Clients notice.
	deposedFor = 6 * time.Second
)

// Draw says how a Plan is completed by random faults.
type Draw struct {
	// Nodes is how many nodes there are, and Groups into how many groups of one size they are
	// divided, in their order.
	Nodes, Groups int
	// Duration is how long the run lasts, and TTL its longest lease time.
	Duration, TTL time.Duration
	// Seed makes the random faults repeatable.
	Seed uint64
}

// outage is the time in which a node can't vote, for a fault and what follows from it.
type outage struct {
	node     int
	from, to time.Duration
}

// generator draws random faults: one at each interval, and never more than a minority of the nodes
// of a group out at the same time, so that there are still locks. Faults that were asked for by
// name count as outages.
type generator struct {
	Draw
	cluster bool
	random  *rand.Rand
	outages []outage
}

// schedule returns all faults of a run in the order of their times. The same Draw returns the same
// faults.
func (p Plan) schedule(d Draw) []Fault {
	g := &generator{Draw: d, cluster: p.cluster, random: rand.New(rand.NewPCG(d.Seed, 0))}
	for _, f := range p.list {
		g.addOutage(f, p.list)
	}
	all := slices.Clone(p.list)
	if p.interval > 0 {
		for at := p.interval; at < d.Duration; at += p.interval {
			all = append(all, g.next(at)...)
		}
	}
	slices.SortStableFunc(all, func(a, b Fault) int { return cmp.Compare(a.at, b.at) })
	return all
}

// next draws the fault that begins at a time. A kill comes with its restart. Forgotten scripts are
// no outage, so there is always a fault.
func (g *generator) next(at time.Duration) []Fault {
	g.outages = slices.DeleteFunc(g.outages, func(o outage) bool { return o.to < at })
	possible := actionsIn(g.cluster)
	for _, i := range g.random.Perm(len(possible)) {
		f := Fault{action: possible[i], at: at}
		length := shortestFault + time.Duration(g.random.Int64N(int64(longestFault-shortestFault)))
		if f.action.lasts {
			f.length = length.Round(time.Millisecond)
		}
		drawn := []Fault{f}
		if f.action == kill {
			drawn = append(drawn, Fault{action: restart, at: at + length.Round(time.Millisecond)})
		}
		for _, n := range g.random.Perm(g.Nodes) {
			for k := range drawn {
				drawn[k].node = n + 1
			}
			if g.fits(drawn) {
				g.addOutage(drawn[0], drawn[1:])
				if drawn[len(drawn)-1].at >= g.Duration {
					drawn = drawn[:1] // the end of the run restarts it
				}
				return drawn
			}
		}
	}
	return nil
}

// fits reports whether the node votes until then, and few enough others of its group are out.
func (g *generator) fits(drawn []Fault) bool {
	o := g.outage(drawn[0], drawn[1:])
	out := make(map[int]bool)
	size := g.Nodes / g.Groups
	for _, other := range g.outages {
		sameGroup := (other.node-1)/size == (o.node-1)/size
		if sameGroup && other.from <= o.to && o.from <= other.to {
			out[other.node] = true
		}
	}
	if out[o.node] {
		return false
	}
	minority := (size - 1) / 2
	if drawn[0].action == reshard {
		minority-- // the next node is out, if it has the higher number
	}
	return drawn[0].action == scriptFlush || len(out) < minority
}

func (g *generator) addOutage(f Fault, all []Fault) {
	g.outages = append(g.outages, g.outage(f, all))
}

// outage returns the outage of a fault. The restart after a kill may be among all.
func (g *generator) outage(f Fault, all []Fault) outage {
	o := outage{node: f.node, from: f.at, to: f.end()}
	if f.action != scriptFlush {
		o.to += recovery
	}
	if f.action == kill {
		o.to = g.Duration
		for _, r := range all {
			if r.node == f.node && r.action == restart && r.at >= f.at {
				o.to = min(o.to, r.at+recovery)
			}
		}
	}
	if f.action.quarantines {
		o.to += g.TTL
		if g.cluster {
			o.to += deposedFor
		}
	}
	return o
}
