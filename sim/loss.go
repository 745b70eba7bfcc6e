package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/sim/dice"
)

// copyAge is by how much a copy of a disk has to be older than the last moment at which a client
// was connected to the node: see docs/guarantees.md.
const copyAge = 10 * time.Second

// copies makes copies of the memory of durable nodes, and notes when a client is connected to one.
func (r *run) copies() {
	for r.plan.restores && r.pause(500*time.Millisecond) {
		for i, n := range r.nodes[:r.plan.durable] {
			n.copy()
			if r.reached(i) {
				r.connected[i].set(time.Now())
			}
		}
	}
}

// flap breaks the connections to two nodes before it is time to renew their generations. So a
// generation has to rise over several connections.
func (r *run) flap() {
	for odd := false; r.plan.flaps && r.pause(950*time.Millisecond); odd = !odd {
		for _, p := range r.processes {
			if odd {
				p.links[2+p.number%(nodes-2)].part(1500 * time.Millisecond)
			}
			for _, l := range p.links[:2] {
				if c := l.current(); c != nil {
					c.snap(false)
				}
			}
		}
	}
}

// reached reports whether a client is connected to a node.
func (r *run) reached(node int) bool {
	return slices.ContainsFunc(r.processes, func(p *process) bool {
		return p.current().Nodes()[node].State == lockpipe.NodeUp && p.links[node].direct()
	})
}

// knowing reports whether a node was not restored, or was told since what it forgot.
func (r *run) knowing(node int) bool {
	return !time.Now().Before(r.restored[node].Add(r.plan.longest + copyAge))
}

// restore lets some durable nodes restart, and one or two of them with a copy of their memory. At
// least as many others as must vouch keep what they know. Those that were restored themselves count
// again when they have been told it.
func (w *weather) restore() string {
	r, now := w.run, time.Now()
	order, wanted, age := w.rng.Perm(r.plan.durable), 1+w.rng.IntN(2), below(w.rng, copyAge)
	knowing := 0
	for i := range nodes {
		if r.knowing(i) {
			knowing++
		}
	}
	text := []string{"restart"}
	for _, i := range order {
		n := r.nodes[i]
		before := r.connected[i].get().Add(-copyAge - age)
		if r.reached(i) {
			before = now.Add(-copyAge - age)
		}
		copies, knows := n.before(before), r.knowing(i)
		switch {
		case wanted > 0 && len(copies) > 0 && (!knows || knowing > nodes/2+1):
			wanted--
			if knows {
				knowing--
			}
			r.restored[i] = now
			c := copies[len(copies)-1]
			n.restore(c)
			text = append(text, fmt.Sprint(i, " with a copy of ", now.Sub(c.at)))
		case w.rng.IntN(2) == 0:
			n.restart()
			text = append(text, fmt.Sprint(i))
		}
	}
	return strings.Join(text, " ")
}

// demote makes a replica of a node until all clients have seen that, and then a master again. It
// has the keys of another node then, or what a replica of its own had of it.
func (w *weather) demote() string {
	r, node := w.run, w.rng.IntN(nodes)
	n, other := r.nodes[node], r.nodes[(node+1+w.rng.IntN(nodes-1))%nodes]
	own, pause := w.rng.IntN(2) == 0 && r.plan.aliases == 0, around(w.rng, r.plan.longest/2)
	keys := n.keysFor(n)
	if !r.pause(pause) {
		return "no demotion"
	}
	if !own {
		keys = other.keysFor(n)
	}
	began := time.Now()
	r.barred.set(r.end)
	n.demote(keys)
	seen := map[*process]bool{}
	for len(seen) < len(r.processes) {
		for _, p := range r.processes {
			if p.sees(node) {
				seen[p] = true
			}
		}
		if !r.pause(10 * time.Millisecond) {
			return fmt.Sprint("demotion of ", node, " for ever")
		}
	}
	n.promote()
	// What it forgot is over then. Until then a new client would know nothing of the demotion.
	r.barred.set(began.Add(r.plan.longest + r.plan.drifting()))
	return fmt.Sprint("demotion of ", node, " own ", own, " for ", time.Since(began))
}

// stop suspends all clients together now and then, until the run's end.
func (w *weather) stop() {
	plan := w.run.plan
	for plan.stops > 0 && w.run.pause(around(w.rng, plan.stops)) {
		d := 1 + below(w.rng, plan.maxTTL)
		w.run.suspend(d, func() bool { return w.rng.IntN(2) == 0 })
		w.run.history.note("weather", fmt.Sprint("stop ", d))
	}
}

// suspend lets d pass for the nodes and not for the clients, whose clocks stand still. looks says
// of each holder whether it looks at its lease then.
func (r *run) suspend(d time.Duration, looks func() bool) {
	now, open := time.Now(), r.history.open()
	left := make([]time.Duration, len(open))
	for i, b := range open {
		left[i] = b.lease.Until().Sub(now)
	}
	dice.Suspend(d)
	for _, n := range r.nodes {
		n.jump(d)
	}
	for i, b := range open {
		b.suspended(left[i], d, looks())
	}
}
