package multiplex

import (
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
)

// Claim is one lease as the nodes see it: its keys, and the token in their values there. Every
// attempt to acquire needs a Claim with a token of its own. Init makes it, once. It must not be
// copied after that.
//
// The operations of a claim take effect in the order acquire, extend, release on each node. A later
// one is behind the earlier one in the log, and each node is sent the log in its order. A newer
// attempt takes an older one out of the log or its draft, if that was not sealed yet.
type Claim struct {
	keys ids.Keys // set once

	// Guards all below, and the votes of the claim's attempts. Node.order comes before it, and the
	// log's comes after it.
	mu sync.Mutex
	// Nodes that may hold the token, or may get it yet: by the acquire, and by an extension.
	acquired, extended quorum.Nodes
	// A node has refused, or has answered with an error. Then a release is sent only to nodes that
	// may hold the token. Otherwise all are sent what is made once.
	divided bool
	// mayOutlive: a node may keep the keys after the lease has ended. Some nodes may have executed
	// an extension that failed, or the lease was shortened. Then the end of the lease sends a
	// release.
	mayOutlive bool
	puts       bool          // a release puts back what the acquire has adopted
	quorums    uint8         // the index of its quorum system; set once
	extensions uint32        // how many began
	maxTTLSent time.Duration // the longest TTL that was ever sent
	latest     *Attempt      // the newest attempt
	// A list of the attempts before it that a node may not have answered yet.
	earlier   *Attempt
	uncertain *uncertainty // nil while all goes well
	memory    *Attempts    // nil: each attempt has memory of its own; set once
}

// uncertainty is what a claim remembers of nodes that failed it.
type uncertainty struct {
	// Nodes to which something was sent, and whose connection broke before the answer.
	brokenAt quorum.Nodes
	// lostKeys are the nodes that had lost the keys since the last extension that was confirmed,
	// and may hold them again because they were refilled. Another client may have held the keys
	// there in between, whichever attempt found it out.
	lostKeys quorum.Nodes
}

// Init gives the claim its keys, each behind prefix, and its token, which ends with suffix. The
// keys must differ from each other.
func (c *Claim) Init(prefix string, keys []string, token, suffix string) {
	c.keys.Init(prefix, keys, token, suffix)
}

// UseSystem gives the claim another quorum system than the first, by its index in Config.Systems.
// It comes before the first attempt. All attempts of the claim ask the nodes of that system alone.
func (c *Claim) UseSystem(i uint8) { c.quorums = i }

// UseMemory gives the claim memory for its acquire and its release, which no other claim may have.
// It comes before the first attempt.
func (c *Claim) UseMemory(a *Attempts) { c.memory = a }

// Token returns the token.
func (c *Claim) Token() string { return c.keys.Token() }

// Len returns the number of keys.
func (c *Claim) Len() int { return c.keys.Len() }

// Key returns the key at i, without the prefix.
func (c *Claim) Key(i int) string { return c.keys.Key(i) }

// MarkOutlives notes that the nodes keep the token for longer than the lease is to last.
func (c *Claim) MarkOutlives() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mayOutlive = true
}

// Certain reports whether the nodes hold what the claim says and nothing else: all that was sent
// was answered as it should. Then another lease can take the claim over.
func (c *Claim) Certain() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.mayOutlive && c.uncertain == nil
}

// NeedsCleanup reports whether something of the claim may still take effect on a node, or may last
// there longer than the lease. Then letting it expire is not enough to leave nothing behind.
func (c *Claim) NeedsCleanup() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unanswered()|c.brokenAt() != 0 || c.mayOutlive
}

// mayHold returns the nodes that may hold the token, or may get it yet. mu is held.
func (c *Claim) mayHold() quorum.Nodes {
	c.unanswered()
	return c.acquired | c.extended
}

// unanswered returns the nodes that have not answered everything that was sent. It forgets earlier
// attempts that every node is done with. mu is held.
func (c *Claim) unanswered() (nodes quorum.Nodes) {
	if c.latest != nil {
		c.latest.countRound()
		nodes = c.latest.pending()
	}
	for p := &c.earlier; *p != nil; {
		a := *p
		pending := a.pending()
		a.countRound()
		if pending == 0 {
			*p, a.earlier = a.earlier, nil
			continue
		}
		nodes |= pending
		p = &a.earlier
	}
	return nodes
}

// ensureUncertain returns c.uncertain, to be written to. mu is held.
func (c *Claim) ensureUncertain() *uncertainty {
	if c.uncertain == nil {
		c.uncertain = new(uncertainty)
	}
	return c.uncertain
}

// brokenAt returns the nodes whose connection broke before the answer. mu is held.
func (c *Claim) brokenAt() quorum.Nodes {
	if c.uncertain == nil {
		return 0
	}
	return c.uncertain.brokenAt
}

// lostKeys returns the nodes that had lost the keys. mu is held.
func (c *Claim) lostKeys() quorum.Nodes {
	if c.uncertain == nil {
		return 0
	}
	return c.uncertain.lostKeys
}

// begin makes a the newest attempt. What it replaces is not sent any more, if it was not sealed.
// mu is held.
func (c *Claim) begin(a *Attempt) {
	prev := c.latest
	if prev != nil {
		prev.tryDecide()
		if prev.inLog() && a.mux.log.Cancel(prev.place) {
			prev.wake()
			prev.place = batch.Place[Attempt, roundState]{}
			c.undo(prev, prev.asked)
			prev.voteUnknown(prev.asked, node.ErrSuperseded)
		}
		prev.earlier, c.earlier = c.earlier, prev
		c.unanswered() // which forgets it, if every node is done with it
	}
	c.latest = a
	if prev != nil && prev.superseded() {
		prev.decided.Store(true) // if nobody waits for it, nobody decides it
	}
	c.mayOutlive = c.mayOutlive || a.op.Kind == node.Extend && a.ttl < c.maxTTLSent
	c.maxTTLSent = max(c.maxTTLSent, a.ttl)
	// The answers of a claim in doubt are recorded, each alone.
	a.recorded = c.uncertain != nil
	if a.op.Kind == node.Extend {
		c.extensions++
		a.number = c.extensions
	}
}

// ask puts the attempt into the log or a draft, for these nodes. It does nothing if there are none.
// mu is held.
func (c *Claim) ask(a *Attempt, nodes quorum.Nodes, to appender) {
	if nodes == 0 {
		a.tryDecide() // a release that no node needs is won now
		return
	}
	// Before the log has it: it may be answered at once.
	a.asked, a.op.Directed = nodes, nodes != a.mux.all()
	a.recorded = a.recorded || a.op.Directed
	switch a.op.Kind {
	case node.Acquire:
		c.acquired |= nodes
	case node.Extend:
		a.firstTouched = nodes &^ c.extended
		c.extended |= nodes
	}
	var err error
	if a.place, err = to.Append(a, uint64(nodes)); err != nil {
		c.undo(a, nodes)
		a.mux.countUnsent(nodes, err)
		a.voteUnknown(nodes, err)
	}
}

// undo notes that the attempt left nothing on these nodes, and never will. mu is held.
func (c *Claim) undo(a *Attempt, nodes quorum.Nodes) {
	switch {
	case a.op.Kind == node.Acquire:
		c.acquired &^= nodes
	case a.op.Kind == node.Extend && a.number == c.extensions:
		c.extended &^= a.firstTouched & nodes
	}
}

// record takes the answer of node i to a. keep: the node is to keep the release until it can answer
// it. mu is held.
func (c *Claim) record(a *Attempt, i int, r node.Answer) (keep bool) {
	bit := quorum.Node(i)
	c.divided = c.divided || r.Vote != node.Granted
	switch {
	case r.Broken:
		c.ensureUncertain().brokenAt |= bit
	case r.Replied && c.uncertain != nil:
		// On this connection, so nothing of an earlier one is still to come.
		c.uncertain.brokenAt &^= bit
	}
	a.countRound()
	if r.LeftNothing {
		c.undo(a, bit)
	}
	switch {
	case a.op.Kind == node.Release && r.Vote != node.Unknown:
		c.acquired &^= bit
		c.extended &^= bit
		switch {
		case a.keeps() && !r.Replied:
			r.Vote = node.Refused // the key has expired
		case !a.keeps() && a.unknown&bit != 0:
			r.Vote = node.Granted // an earlier try may have deleted what is gone
		}
	case a.op.Kind == node.Release && c.mayHold()&bit == 0:
		a.neverHeld |= bit
		a.tryDecide()
		return false
	case a.op.Kind == node.Release:
		keep = true
	case a.op.Kind == node.Acquire && r.Vote == node.Refused:
		r = a.refusal(i, r)
	case a.op.Kind == node.Extend && r.Vote == node.Refused:
		if a.tryDecide(); a.decision != quorum.Won {
			c.ensureUncertain().lostKeys |= bit
		}
	}
	a.addVote(i, r)
	return keep
}

// mayChange reports whether node i may still execute something that it was sent for the claim, and
// has not answered. A stopped server may do so at any later time.
func (c *Claim) mayChange(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (c.unanswered() | c.brokenAt()).Has(i)
}

// pendingUntil returns until when a release that node i could not answer must be kept: as long as
// what was sent there can last. The zero time stands for "until answered": a stopped server may
// execute what a broken connection left behind at any later time, with its whole TTL.
func (c *Claim) pendingUntil(a *Attempt, i int, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.brokenAt().Has(i) {
		return time.Time{}
	}
	n := a.detail(i)
	if n.expiry.IsZero() {
		n.expiry = now.Add(c.maxTTLSent)
	}
	return n.expiry
}
