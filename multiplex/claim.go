package multiplex

import (
	"sync"
	"time"

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
// attempt takes an older one out of the log, if that was not sealed yet.
type Claim struct {
	keys ids.Keys // set once

	// Guards all below, and the votes of the claim's attempts. Node.order comes before it, and the
	// log's comes after it.
	mu sync.Mutex
	// Nodes that may hold the token, or may get it yet. A node leaves them when it has answered the
	// release, or when what first asked it for the keys has left nothing there (undo).
	may quorum.Nodes
	// Nodes to which something was sent, and whose connection broke before the answer. A node
	// leaves them when it answers what was sent after that: nothing of the earlier connection is
	// still to come then.
	doubt quorum.Nodes
	// Nodes that had lost the keys since the last extension that was confirmed, and may hold them
	// again because they were refilled. Another client may have held the keys there in between,
	// whichever attempt found it out.
	lost   quorum.Nodes
	failed bool // a node was in doubt, or had lost the keys
	// A node has refused, or has answered with an error. Then a release is sent only to nodes that
	// may hold the token. Otherwise all are sent what is made once.
	divided bool
	// mayOutlive: a node may keep the keys after the lease has ended. Some nodes may have executed
	// an extension that failed, or the lease was shortened. Then the end of the lease sends a
	// release.
	mayOutlive bool
	puts       bool          // a release puts back what the acquire has adopted
	quorums    uint8         // the index of its quorum system; set once
	begun      uint16        // how many acquires and extensions began; it wraps
	maxTTLSent time.Duration // the longest TTL that was ever sent
	latest     *Attempt      // the newest attempt; nil: every node is done with it
	// A list of the attempts before it that a node may not have answered yet.
	earlier *Attempt
	memory  *Attempts // nil: each attempt has memory of its own; set once
}

// Attempts is memory for the two attempts that most claims make. It is used once.
type Attempts struct{ acquire, release Attempt }

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
	return !c.mayOutlive && !c.failed
}

// NeedsCleanup reports whether something of the claim may still take effect on a node, or may last
// there longer than the lease. Then letting it expire is not enough to leave nothing behind.
func (c *Claim) NeedsCleanup() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unanswered()|c.doubt != 0 || c.mayOutlive
}

// unanswered returns the nodes that have not answered everything that was sent. It counts the votes
// of all attempts, and forgets earlier ones that every node is done with. mu is held.
func (c *Claim) unanswered() (nodes quorum.Nodes) {
	if c.latest != nil {
		nodes = c.latest.pending()
	}
	return nodes | c.unansweredBefore()
}

// unansweredBefore is unanswered without the newest attempt. mu is held.
func (c *Claim) unansweredBefore() (nodes quorum.Nodes) {
	for p := &c.earlier; *p != nil; {
		a := *p
		pending := a.pending()
		if pending == 0 {
			*p, a.earlier = a.earlier, nil
			continue
		}
		nodes |= pending
		p = &a.earlier
	}
	return nodes
}

// forget forgets an extension that every node is done with: claims that are held for long have no
// attempt between two extensions. Whoever waits for it still has its votes.
func (c *Claim) forget(a *Attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.tryDecide()
	if c.latest == a {
		c.latest = nil
	}
	c.unanswered() // which forgets it, if it is an earlier one
}

// isReleased reports whether the last attempt of the claim has begun. mu is held.
func (c *Claim) isReleased() bool { return c.latest != nil && c.latest.op.Kind == node.Release }

// begin makes a the newest attempt. What it replaces is not sent any more, if it was not sealed.
// mu is held.
func (c *Claim) begin(a *Attempt) {
	prev := c.latest
	c.latest = a
	if prev != nil {
		prev.tryDecide()
		if r := prev.round; r != nil && a.mux.log.Cancel(r, prev) {
			prev.round = nil
			c.undo(prev, prev.asked)
			prev.voteUnknown(prev.asked, node.ErrSuperseded)
			r.State.wake()
		}
		prev.earlier, c.earlier = c.earlier, prev
		c.unanswered() // which forgets it, if every node is done with it
		if prev.superseded() {
			prev.decided.Store(true) // if nobody waits for it, nobody decides it
		}
	}
	c.mayOutlive = c.mayOutlive || a.op.Kind == node.Extend && a.ttl < c.maxTTLSent
	c.maxTTLSent = max(c.maxTTLSent, a.ttl)
	if a.op.Kind != node.Release {
		c.begun++
		a.number = c.begun
	}
}

// ask puts the attempt into the log, for these nodes. It does nothing if there are none. mu is
// held.
func (c *Claim) ask(a *Attempt, nodes quorum.Nodes) {
	if nodes == 0 {
		a.tryDecide() // a release that no node needs is won now
		return
	}
	// Before the log has it: it may be answered at once.
	a.asked, a.op.Directed = nodes, nodes != a.mux.all()
	if a.op.Kind != node.Release {
		a.added = nodes &^ c.may
		c.may |= nodes
	}
	var err error
	if a.round, err = a.mux.log.Append(a, uint64(nodes)); err != nil {
		c.undo(a, nodes)
		a.mux.countUnsent(nodes, err)
		a.voteUnknown(nodes, err)
	}
}

// undo notes that the attempt left nothing on these nodes, and never will. A later acquire or
// extension may have. mu is held.
func (c *Claim) undo(a *Attempt, nodes quorum.Nodes) {
	if a.number == c.begun {
		c.may &^= a.added & nodes
	}
}

// record takes the answer of node i to a. keep: the node is to keep the release until it can answer
// it. mu is held.
func (c *Claim) record(a *Attempt, i int, r node.Answer) (keep bool) {
	bit := quorum.Node(i)
	c.divided = c.divided || r.Replied && r.Vote != node.Granted
	switch {
	case r.Broken:
		c.unanswered() // counts what the node has answered before: that ends no later doubt
		c.doubt |= bit
		c.failed = true
	case r.Replied:
		c.doubt &^= bit
	}
	if r.LeftNothing {
		c.undo(a, bit)
	}
	switch {
	case a.op.Kind == node.Release && r.Vote != node.Unknown:
		c.may &^= bit
		switch {
		case a.keeps() && !r.Replied:
			r.Vote = node.Refused // the key has expired
		case !a.keeps() && a.tried.Has(i):
			r.Vote = node.Granted // an earlier try may have deleted what is gone
		}
	case a.op.Kind == node.Release && c.may&bit == 0:
		a.neverHeld |= bit
		a.tryDecide()
		return a.frees()
	case a.op.Kind == node.Release:
		keep = true
		if !r.LeftNothing {
			a.tried |= bit
		}
	case a.op.Kind == node.Acquire && r.Vote == node.Refused:
		r = a.refusal(i, r)
	case a.op.Kind == node.Extend && r.Vote == node.Refused:
		if a.tryDecide(); a.decision != quorum.Won {
			c.lost |= bit
			c.failed = true
		}
	}
	a.addVote(i, r)
	return keep
}
