package multiplex

import (
	"time"

	"github.com/lockpipe/lockpipe/internal/node"
)

// operation is an attempt as its nodes see it.
type operation Attempt

// Op returns what all nodes are asked for alike.
func (o *operation) Op() *node.Op { return &o.op }

// Skip returns why the attempt is not sent to node i any more; nil if it is. An acquire is not sent
// once more behind an extension: that gives the keys to a node that lacks them.
func (o *operation) Skip(i int, again bool, now time.Time) error {
	a := (*Attempt)(o)
	a.claim.mu.Lock()
	defer a.claim.mu.Unlock()
	if a.op.Kind == node.Release && !a.claim.mayHold().Has(i) && !a.frees() {
		return node.ErrNotNeeded
	}
	if a.op.Kind == node.Acquire && again && a.claim.latest != a {
		return node.ErrSuperseded
	}
	return a.skipReason(now)
}

// Record takes the answer of node i to a release that it had kept.
func (o *operation) Record(i int, r node.Answer) { o.mux.record((*Attempt)(o), i, r) }

// PendingUntil returns until when node i must keep a release that it could not answer.
func (o *operation) PendingUntil(i int, now time.Time) time.Time {
	return o.claim.pendingUntil((*Attempt)(o), i, now)
}

// MayChange reports whether node i may still execute something that it was sent for the claim.
func (o *operation) MayChange(i int) bool { return o.claim.mayChange(i) }

// record takes the answer of a node to an attempt.
func (m *Mux) record(a *Attempt, i int, r node.Answer) {
	c := a.claim
	c.mu.Lock()
	keep := c.record(a, i, r)
	c.mu.Unlock()
	if keep {
		m.nodes[i].AddPending((*operation)(a))
	}
}

// recordMissed notes that a node missed a round. It reports whether the node must get the attempt
// later in spite of that: a release on a node that may hold the token.
func (m *Mux) recordMissed(a *Attempt, i int, why error) (later bool) {
	a.claim.mu.Lock()
	defer a.claim.mu.Unlock()
	return a.claim.record(a, i, node.Answer{LeftNothing: true, Err: why})
}
