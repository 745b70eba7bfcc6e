package multiplex

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
)

// AcquireViaArbiter is Acquire for a caller that knows of others who want the same keys. It asks
// one node first: the arbiter, by its index in the configuration. It asks the others only if the
// arbiter granted, or its vote is unknown. If the arbiter refused, the attempt is held at once: no
// other node was asked then, and Outcome.Nodes names the arbiter alone. When all contenders use
// the same arbiter, one of them wins it, and the votes of the others do not split the nodes between
// them.
//
// Validity counts from before the arbiter was asked. Wait gives the arbiter half of NodeTimeout,
// and then the others as long as Acquire does. If nobody waits, a silent arbiter holds the attempt
// up. An arbiter that is no index of a node of the claim makes it an Acquire.
func (m *Mux) AcquireViaArbiter(c *Claim, ttl time.Duration, arbiter int) *Attempt {
	m.counts.attempts.Add(1)
	a := m.newAttempt(c, node.Acquire, ttl, m.timeoutFor(c.Len()), ttl/2)
	if nodes := a.system().Nodes(); arbiter >= 0 && nodes.Has(arbiter) {
		a.deferred = nodes &^ quorum.Node(arbiter)
	}
	return m.submit(a, m.log)
}

// askDeferred asks the nodes that the attempt has deferred, and reports whether it did. It does
// nothing if the attempt has asked all nodes, is decided, or is of no use any more. claim.mu is
// held.
func (a *Attempt) askDeferred() bool {
	if a.deferred == 0 || a.decision != quorum.Undecided || time.Since(a.op.Sent) >= a.maxAge {
		return false
	}
	nodes := a.deferred
	a.deferred = 0
	a.deferredAskedAt = uint32(time.Since(a.op.Sent)/time.Millisecond) + 1
	a.claim.ask(a, nodes, a.mux.log)
	return true
}

// phaseTimeout returns how long a node may owe an answer in this phase. While only the arbiter is
// asked, it is shorter. claim.mu is held.
func (a *Attempt) phaseTimeout() time.Duration {
	if a.deferred != 0 {
		return a.timeout / 2
	}
	return a.timeout
}

// Arbiter chooses the node that contenders for a key, given with its prefix, ask first. It is the
// node with the highest rendezvous weight for the key, of those that are connected. If that one was
// of no use, it is one of the next: skip is how many to leave out. -1: none is connected. The
// choice depends on the key and the nodes' addresses. So all contenders choose the same node,
// whatever the order of their configuration.
//
// system is that of the claims, by its index in Config.Systems, and set is one of its sets, by its
// index. So contenders that share a set choose the same node, whatever other set they need.
func (m *Mux) Arbiter(system uint8, set int, key string, skip int) int {
	var up []int
	for s := m.systems[system].Sets()[set]; s != 0; s &= s - 1 {
		if i := s.Lowest(); m.nodes[i].Link.State() == NodeUp {
			up = append(up, i)
		}
	}
	if len(up) == 0 {
		return -1
	}
	slices.SortFunc(up, func(i, j int) int {
		return cmp.Compare(ids.Weight(key, m.nodes[j].Link.Name()),
			ids.Weight(key, m.nodes[i].Link.Name()))
	})
	return up[skip%len(up)]
}
