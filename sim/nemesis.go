package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// nemesis injects faults until the run ends.
type nemesis struct {
	run *run
	rng *rand.Rand
}

func (m *nemesis) injectFaults() {
	plan := m.run.plan
	if plan.faultEvery == 0 {
		return
	}
	for m.run.sleep(around(m.rng, plan.faultEvery)) {
		m.run.history.note("nemesis", m.injectFault())
	}
}

// injectFault injects one fault of the network, a node or a process, and returns its description.
func (m *nemesis) injectFault() string {
	process, node := m.rng.IntN(m.run.plan.clients), m.rng.IntN(nodes)
	l := m.run.processes[process].links[node]
	short, long := around(m.rng, 100*time.Millisecond), around(m.rng, time.Second)
	kind := m.rng.IntN(10)
	lost := m.rng.IntN(2) == 0
	switch c := l.current(); kind {
	case 0, 1, 2:
		switch {
		case c == nil:
		case kind == 0:
			c.reset(lost)
		case kind == 1:
			c.dropOutbound()
		default:
			c.dropInbound()
		}
	case 3:
		m.run.frozenUntil[node].set(time.Now().Add(long))
	case 4:
		m.run.processes[process].pausedUntil.set(time.Now().Add(short))
	case 5:
		l.partition(long)
	case 6:
		l.slowUntil.set(time.Now().Add(long))
	case 7:
		l.refusingUntil.set(time.Now().Add(long))
		if c != nil {
			c.reset(lost)
		}
	case 8:
		m.partition(process, node, long)
	default:
		for _, l := range m.run.processes[process].links {
			if c := l.current(); c != nil {
				c.reset(lost)
			}
		}
	}
	return fmt.Sprint("fault ", kind, " client ", process, " node ", node, " ", short, " ", long)
}

// injectAliases lets names lead to the servers of other nodes.
func (m *nemesis) injectAliases() {
	plan := m.run.plan
	for plan.aliasEvery > 0 && m.run.sleep(around(m.rng, plan.aliasEvery)) {
		p := m.run.processes[m.rng.IntN(plan.clients)]
		m.run.history.note("nemesis", p.aliasNode(m.rng, around(m.rng, time.Second)))
	}
}

// partition cuts one client off from some nodes, or one node from all clients.
func (m *nemesis) partition(process, node int, d time.Duration) {
	if m.rng.IntN(2) == 0 {
		for _, p := range m.run.processes {
			p.links[node].partition(d)
		}
		return
	}
	for _, l := range m.run.processes[process].links {
		if m.rng.IntN(2) == 0 {
			l.partition(d)
		}
	}
}
