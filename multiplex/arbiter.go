package multiplex

import (
	"cmp"
	"slices"
	"time"
)

// Contend is Acquire for a caller that knows of others who want the same keys. It asks the node
// judge first, a place of the configuration, and the others only when that one granted, or its vote
// is unknown. Refused by the judge, the attempt is held at once; no other node was asked then, and
// HeldError.Nodes names the judge alone. When all contenders use the same judge, one of them wins
// it, and the votes of the others do not split the nodes between them.
//
// Validity counts from before the judge was asked. Wait gives the judge half of NodeTimeout, and
// then the others as long as Acquire does; where nobody waits, a silent judge holds the attempt up.
// With a judge that is no node's place it is an Acquire.
func (m *Mux) AcquireViaArbiter(c *Claim, ttl time.Duration, arbiter int) *Attempt {
	m.counts.attempts.Add(1)
	a := m.newAttempt(c, acquire, ttl, m.timeoutFor(c.Len()), ttl/2)
	if arbiter >= 0 && arbiter < len(m.nodes) {
		a.deferred = allNodes(len(m.nodes)) &^ nodeBit(arbiter)
	}
	return m.submit(a)
}

// open lets the attempt ask the nodes that it has not asked because of its judge, and returns those
// whose lanes it took. It does nothing where it has asked all, or is decided, given up, or of no
// use any more. claim.mu is held.
func (a *Attempt) askDeferred() (start nodeSet) {
	if a.deferred == 0 || a.decision != pending || time.Since(a.sent) >= a.maxAge {
		return 0
	}
	lanes := a.deferred
	a.deferred = 0
	a.deferredAskedAt = uint32(time.Since(a.sent)/time.Millisecond) + 1
	for s := lanes; s != 0; s &= s - 1 {
		lane := nodeBit(s.first())
		switch {
		case a.claim.busyLanes&lane != 0: // not of a new claim
			a.blockedLanes |= lane
		case a.takeLane(lane):
			start |= lane
		}
	}
	return start
}

// limitNow is how long a node may owe an answer in this phase: the judge alone is not waited for as
// long. claim.mu is held.
func (a *Attempt) phaseTimeout() time.Duration {
	if a.deferred != 0 {
		return a.timeout / 2
	}
	return a.timeout
}

// Judge chooses the node that those who compete for a key, given with its prefix, ask first: of the
// nodes that are connected, the one with the highest rank for the key, or where that was of no use,
// one of those behind it: passed is how many to leave out. -1: none is connected. It depends on the
// key and the nodes' addresses, so that all contenders choose the same one, whatever the order of
// their configuration.
func (m *Mux) Arbiter(key string, skip int) int {
	var up []int
	for i, n := range m.nodes {
		if NodeState(n.state.Load()) == NodeUp {
			up = append(up, i)
		}
	}
	if len(up) == 0 {
		return -1
	}
	slices.SortFunc(up, func(i, j int) int {
		return cmp.Compare(rendezvousWeight(key, m.nodes[j].addr),
			rendezvousWeight(key, m.nodes[i].addr))
	})
	return up[skip%len(up)]
}

// rank is how far in front a node is for a key: the same in every process.
func rendezvousWeight(key, addr string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	for _, text := range [...]string{key, "\x00", addr} {
		for i := range len(text) {
			h = (h ^ uint64(text[i])) * prime
		}
	}
	h ^= h >> 33 // the last bytes alone would hardly change the order
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
