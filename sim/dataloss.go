package sim

import (
	"fmt"
	"time"
)

// injectDataLosses lets nodes lose their data until the run ends.
func (m *nemesis) injectDataLosses() {
	plan := m.run.plan
	if plan.lossEvery == 0 {
		return
	}
	for m.run.sleep(around(m.rng, plan.lossEvery)) && m.run.awaitAllMetNode() {
		m.run.history.note("nemesis", m.injectDataLoss())
	}
}

// injectDataLoss takes the data from one node, from a quorum or from all nodes, and returns a
// description.
func (m *nemesis) injectDataLoss() string {
	switch {
	case m.run.plan.restores:
		return m.restoreNodes()
	case m.run.plan.demotes && m.rng.IntN(2) == 0:
		return m.demoteNode()
	}
	count := []int{1, 1, 1, nodes/2 + 1, nodes/2 + 1, nodes}[m.rng.IntN(6)]
	from, kind, age := m.rng.IntN(nodes), m.rng.IntN(6), around(m.rng, m.run.plan.clientMaxTTL/2)
	if kind == 3 && m.rng.IntN(2) == 0 {
		for _, p := range m.run.processes {
			// When the clients continue, the nodes' notifications arrive all at once.
			p.pausedUntil.set(time.Now().Add(below(m.rng, 20*time.Millisecond)))
		}
	}
	if m.run.plan.replacements {
		kind, age, count = 6, below(m.rng, m.run.plan.clientMaxTTL), max(count, nodes/2+1)
		if m.rng.IntN(2) == 0 {
			kind = 3
			if m.resetAllConns(); !m.run.awaitAllMetNode() { // a client may have started meanwhile
				return "no loss"
			}
		}
	}
	for i := range count {
		switch n := m.run.nodes[(from+i)%nodes]; kind {
		case 6:
			if m.run.allConnected((from + i) % nodes) {
				n.Replace(age)
			}
		case 0, 1:
			n.Restart()
		case 2:
			n.Failover(age)
		case 3:
			n.Wipe()
		default:
			n.TakeSnapshot()
		}
	}
	return fmt.Sprint("loss ", kind, " of ", count, " from node ", from, " age ", age)
}

// resetAllConns breaks all connections of all clients, and returns while the clients reconnect.
func (m *nemesis) resetAllConns() {
	rtt := 2 * m.run.plan.latency
	for _, p := range m.run.processes {
		time.AfterFunc(below(m.rng, 2*rtt), p.resetConns)
	}
	time.Sleep(rtt + below(m.rng, 3*rtt))
}
