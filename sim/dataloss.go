package sim

import (
	"fmt"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
)

// What the guard can't notice is left out, and docs/guarantees.md has it:
//
//   - All nodes that were admitted lose their memory together, and a client comes that met none of
//     them: see awaitMayStart. Nor do nodes lose it before all clients have met one, but for one
//     node in a first use: see injectEarlyLoss.
//   - A client knows only server B when A returns to its name, or has seen nothing of B, or two
//     servers are reached at the same time for long: see changeServer and longestSurge.
//   - A client with a longer MaxTTL has left it on no node that is heard, and only others come
//     back: see awaitEntries.
//   - A clock is set forward in a wait that a client has not seen begin: see injectClocks. Clocks
//     of nodes that vote are not set, because locks would end early.
//   - A user demotes a node without tracking, and who is connected is not told: see demoteNode.
//   - SWAPDB, of which a server tells nobody.

// injectDataLosses lets nodes lose their data until the run ends.
func (m *nemesis) injectDataLosses() {
	plan := m.run.plan
	if plan.lossEvery == 0 {
		return
	}
	for m.run.sleep(around(m.rng, plan.lossEvery)) && m.run.awaitAllMetNode() {
		if plan.mixed && (!m.run.sleep(plan.clientMaxTTL+guardLag) || !m.run.awaitEntries()) {
			return
		}
		m.run.noteWhoKnows()
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
	from, kind, age := m.rng.IntN(nodes), m.rng.IntN(9), around(m.rng, m.run.plan.clientMaxTTL/2)
	if m.run.plan.mixed {
		count = min(count, 2)
	}
	if kind == 3 && m.rng.IntN(2) == 0 {
		for _, p := range m.run.processes {
			// When the clients continue, the nodes' notifications arrive all at once.
			p.pausedUntil.set(time.Now().Add(below(m.rng, 20*time.Millisecond)))
		}
	}
	if m.run.plan.replacements {
		kind, age, count = 9, below(m.rng, m.run.plan.clientMaxTTL), max(count, nodes/2+1)
		if m.rng.IntN(2) == 0 {
			kind = 3
			if m.resetAllConns(); !m.run.awaitAllMetNode() { // a client may have started meanwhile
				return "no loss"
			}
		}
	}
	for i := range count {
		m.cutOffLongest((from + i) % nodes)
		switch n := m.run.server((from + i) % nodes); kind {
		case 9:
			n.Replace(age)
		case 0, 1:
			n.Restart()
		case 2:
			n.Failover(age)
		case 3:
			n.Wipe()
		case 4:
			n.DeleteAll()
		case 5:
			n.Delete(prefix + ids.AdmittedKey)
		case 6:
			if !m.run.plan.mixed { // what is lost with it is another MaxTTL
				n.Delete(prefix + ids.LayoutsKey)
			}
		default:
			n.TakeSnapshot()
		}
	}
	return fmt.Sprint("loss ", kind, " of ", count, " from node ", from, " age ", age)
}

// cutOffLongest lets only clients with a shorter MaxTTL see that a node has lost its data, if
// clients differ in that.
func (m *nemesis) cutOffLongest(node int) {
	for _, p := range m.run.processes {
		_, used := p.clientAndLayout()
		if m.run.plan.mixed && used.maxTTL == m.run.plan.clientMaxTTL {
			p.links[node].partition(m.run.plan.clientMaxTTL)
		}
	}
}

// resetAllConns breaks all connections of all clients, and returns while the clients reconnect.
func (m *nemesis) resetAllConns() {
	rtt := 2 * m.run.plan.latency
	for _, p := range m.run.processes {
		time.AfterFunc(below(m.rng, 2*rtt), p.resetConns)
	}
	time.Sleep(rtt + below(m.rng, 3*rtt))
}
