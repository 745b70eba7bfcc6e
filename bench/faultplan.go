package bench

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
)

// outage is the time in which a node can't be counted on, for a fault and what follows from it.
type outage struct {
	node     int
	from, to time.Duration
}

// draw is the making of random faults: one at each interval, and never more than a minority of the
// nodes out at the same time, so that the load goes on. What was asked for by name counts, and is
// not questioned.
type draw struct {
	random   *rand.Rand
	nodes    int
	duration time.Duration
	forgets  time.Duration // how long a node that may have forgotten keys can't be counted on
	outages  []outage
}

// schedule returns all faults of a run in the order of their times. The same seed gives the same
// faults.
func (p faultPlan) schedule(cfg Config, nodes int) []fault {
	d := &draw{
		random: rand.New(rand.NewPCG(cfg.FaultSeed, 0)), nodes: nodes,
		duration: cfg.Duration, forgets: cfg.TTL,
	}
	for _, f := range p.list {
		d.note(f, p.list)
	}
	all := slices.Clone(p.list)
	if p.interval > 0 {
		for at := p.interval; at < cfg.Duration; at += p.interval {
			all = append(all, d.next(at)...)
		}
	}
	slices.SortStableFunc(all, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	return all
}

// next draws the fault that begins at a time: a kill comes with its restart. Forgotten scripts are
// no outage, so there is always one.
func (d *draw) next(at time.Duration) []fault {
	d.outages = slices.DeleteFunc(d.outages, func(o outage) bool { return o.to < at })
	for _, i := range d.random.Perm(len(actions)) {
		f := fault{action: actions[i], at: at}
		length := shortestFault + time.Duration(d.random.Int64N(int64(longestFault-shortestFault)))
		if f.action.lasts() {
			f.length = length.Round(time.Millisecond)
		}
		drawn := []fault{f}
		if f.action == kill {
			drawn = append(drawn, fault{action: restart, at: at + length.Round(time.Millisecond)})
		}
		for _, n := range d.random.Perm(d.nodes) {
			for k := range drawn {
				drawn[k].node = n + 1
			}
			if d.fits(drawn) {
				d.note(drawn[0], drawn[1:])
				if drawn[len(drawn)-1].at >= d.duration {
					drawn = drawn[:1] // the end of the run restarts it
				}
				return drawn
			}
		}
	}
	return nil
}

// fits tells whether the node is well for the whole time, and few enough others are out.
func (d *draw) fits(drawn []fault) bool {
	o := d.outage(drawn[0], drawn[1:])
	out := make(map[int]bool)
	for _, other := range d.outages {
		if other.from <= o.to && o.from <= other.to {
			out[other.node] = true
		}
	}
	if out[o.node] {
		return false
	}
	minority := (d.nodes - 1) / 2
	return drawn[0].action == scriptFlush || len(out) < minority
}

func (d *draw) note(f fault, all []fault) { d.outages = append(d.outages, d.outage(f, all)) }

// outage is that of a fault; among all faults may be the restart after a kill.
func (d *draw) outage(f fault, all []fault) outage {
	o := outage{node: f.node, from: f.at, to: f.end()}
	if f.action != scriptFlush {
		o.to += recovery
	}
	if f.action == kill {
		o.to = d.duration
		for _, r := range all {
			if r.node == f.node && r.action == restart && r.at >= f.at {
				o.to = min(o.to, r.at+recovery)
			}
		}
	}
	if f.action.quarantines() {
		o.to += d.forgets
	}
	return o
}
