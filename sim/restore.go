package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe"
)

// copyAge is how long a copy of a disk must have been made before a client was last connected to
// the node: see docs/guarantees.md.
const copyAge = 10 * time.Second

// copyDisks makes copies of the data of durable nodes, and records when a client is connected to
// one.
func (r *run) copyDisks() {
	for r.plan.restores && r.sleep(500*time.Millisecond) {
		for i, n := range r.nodes[:r.plan.durableNodes] {
			n.MakeCopy()
			if r.anyConnected(i) {
				r.connectedAt[i].set(time.Now())
			}
		}
	}
}

// flapConns breaks the connections to two nodes before it is time to renew their generations. So a
// generation has to rise over several connections.
func (r *run) flapConns() {
	for odd := false; r.plan.flaps && r.sleep(950*time.Millisecond); odd = !odd {
		for _, p := range r.processes {
			if odd {
				p.links[2+p.number%(nodes-2)].partition(1500 * time.Millisecond)
			}
			for _, l := range p.links[:2] {
				if c := l.current(); c != nil {
					c.reset(false)
				}
			}
		}
	}
}

// anyConnected reports whether a client is connected to a node under its own name.
func (r *run) anyConnected(node int) bool {
	return slices.ContainsFunc(r.processes, func(p *process) bool {
		return p.stateOf(node).State == lockpipe.NodeUp && p.links[node].isDirect()
	})
}

// remembers reports whether a node was not restored, or has got back since then what it lost.
func (r *run) remembers(node int) bool {
	return !time.Now().Before(r.restoredAt[node].Add(r.plan.clientMaxTTL + copyAge))
}

// restoreNodes lets some durable nodes restart, one or two of them with a copy of their data. At
// least as many other nodes as must vouch keep what they know. A restored node counts among these
// again when it has got back what it lost.
func (m *nemesis) restoreNodes() string {
	r, now := m.run, time.Now()
	order, left, age := m.rng.Perm(r.plan.durableNodes), 1+m.rng.IntN(2), below(m.rng, copyAge)
	remembering := 0
	for i := range nodes {
		if r.remembers(i) {
			remembering++
		}
	}
	text := []string{"restart"}
	for _, i := range order {
		n := r.nodes[i]
		before := r.connectedAt[i].get().Add(-copyAge - age)
		if r.anyConnected(i) {
			before = now.Add(-copyAge - age)
		}
		copies, remembers := n.CopiesBefore(before), r.remembers(i)
		switch {
		case left > 0 && len(copies) > 0 && (!remembers || remembering > nodes/2+1):
			left--
			if remembers {
				remembering--
			}
			r.restoredAt[i] = now
			c := copies[len(copies)-1]
			n.Restore(c)
			text = append(text, fmt.Sprint(i, " with a copy of ", now.Sub(c.At)))
		case m.rng.IntN(2) == 0:
			n.Restart()
			text = append(text, fmt.Sprint(i))
		}
	}
	return strings.Join(text, " ")
}
