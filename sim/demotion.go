package sim

import (
	"fmt"
	"time"
)

// demoteNode turns a node into a replica for a time, and then into a master again. The node then
// has the keys of another node, or an older copy of its own that a replica had. Clients may see
// nothing of it but what its memory is called. Later the node may forget that it was a replica,
// which it does after repl-backlog-ttl: not before all that it has missed is over.
func (m *nemesis) demoteNode() string {
	r, node := m.run, m.rng.IntN(nodes)
	n, other := r.nodes[node], r.nodes[(node+1+m.rng.IntN(nodes-1))%nodes]
	own, pause := m.rng.IntN(2) == 0 && r.plan.aliasEvery == 0, around(m.rng, r.plan.clientMaxTTL/2)
	brief, stays, forgets := m.rng.IntN(2) == 0, m.rng.IntN(2) == 0, m.rng.IntN(2) == 0
	keys := n.KeysFor(n)
	if !r.sleep(pause) {
		return "no demotion"
	}
	if !own {
		keys = other.KeysFor(n)
	}
	// Who is connected to a node without tracking can't notice that it was a replica.
	if stays = stays && !n.NoTracking; stays {
		n.Sync(keys)
	} else {
		n.Demote(keys)
	}
	d := around(m.rng, 300*time.Millisecond)
	if brief {
		d = below(m.rng, 2*r.plan.latency)
	}
	time.Sleep(d)
	n.Promote()
	promoted := time.Now()
	r.promotedAt[node].set(promoted)
	if forgets {
		time.AfterFunc(r.plan.clientMaxTTL+r.plan.driftMargin(), func() {
			if r.promotedAt[node].get().Equal(promoted) { // it was not demoted again
				n.ForgetReplica()
			}
		})
	}
	return fmt.Sprint("demotion of ", node, " own ", own, " stays ", stays, " for ", d, " forgets ",
		forgets)
}
