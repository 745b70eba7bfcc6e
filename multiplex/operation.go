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
	if a.op.Kind == node.Release && !a.claim.may.Has(i) && !a.frees() {
		return node.ErrNotNeeded
	}
	if a.op.Kind == node.Acquire && again && a.claim.latest != a {
		return node.ErrSuperseded
	}
	return a.skipReason(now)
}

// Record takes the answer of node i to a release that it had kept.
func (o *operation) Record(i int, r node.Answer) {
	o.mux.record((*Attempt)(o), i, r)
	o.round.State.wake()
}

// Expired reports whether the node need not keep a release any more that it could not answer: what
// was sent to node i for the claim has expired. That is never so while a stopped server may execute
// something at any later time, with its whole TTL: what it has not answered, or what a broken
// connection left behind. The TTL counts from the first call without such doubt.
func (o *operation) Expired(i int, now time.Time) bool {
	c := o.claim
	c.mu.Lock()
	defer c.mu.Unlock()
	if (c.doubt | c.unansweredBefore()).Has(i) {
		return false
	}
	n := (*Attempt)(o).detail(i)
	if n.expiry.IsZero() {
		n.expiry = now.Add(c.maxTTLSent)
	}
	return !now.Before(n.expiry)
}

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
