package sim

import (
	"fmt"
	"time"
)

// demoteNode turns a node into a replica until all clients have seen that, and then into a master
// again. The node then has the keys of another node, or an older copy of its own that a replica
// had.
func (m *nemesis) demoteNode() string {
	r, node := m.run, m.rng.IntN(nodes)
	n, other := r.nodes[node], r.nodes[(node+1+m.rng.IntN(nodes-1))%nodes]
	own, pause := m.rng.IntN(2) == 0 && r.plan.aliasEvery == 0, around(m.rng, r.plan.clientMaxTTL/2)
	keys := n.KeysFor(n)
	if !r.sleep(pause) {
		return "no demotion"
	}
	if !own {
		keys = other.KeysFor(n)
	}
	began := time.Now()
	r.noStartUntil.set(r.end)
	n.Demote(keys)
	seen := map[*process]bool{}
	for len(seen) < len(r.processes) {
		for _, p := range r.processes {
			if p.seesReplica(node) {
				seen[p] = true
			}
		}
		if !r.sleep(10 * time.Millisecond) {
			return fmt.Sprint("demotion of ", node, " for ever")
		}
	}
	n.Promote()
	// By then all leases that the node has lost are over. A client that started earlier would know
	// nothing of the demotion.
	r.noStartUntil.set(began.Add(r.plan.clientMaxTTL + r.plan.driftMargin()))
	return fmt.Sprint("demotion of ", node, " own ", own, " for ", time.Since(began))
}
