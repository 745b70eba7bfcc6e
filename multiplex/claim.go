package multiplex

import (
	"strings"
	"sync"
	"time"
)

// Claim is one lease as the nodes see it: its keys, and the token that is their value there. Every
// attempt to acquire needs a Claim with a token of its own. Init makes it, once. It must not be
// copied after that.
//
// A lane is one claim on one node. On a lane at most one attempt is queued or under way. The next
// one is given to the node when the one before was answered there, or is known not to have been
// sent. So on each node the attempts of a claim take effect in the order acquire, extend, release,
// although flushes that are under way together are in no order. If an attempt still waits for a
// lane when a newer one comes, it is dropped there: the newer one replaces both.
type Claim struct {
	buf       string     // the token, and behind it the only key with its prefix; set once
	singleKey [1]string  // the only key; set once
	cold      *coldClaim // set once
	prefix    int32      // length of the prefix of each key; set once

	// mayOutlive: a node may keep the token for longer than the lease lasts. The reason is an
	// extension that failed and that some nodes may have done, or one to a shorter TTL. That one
	// ends the lease sooner, but not its keys.
	mayOutlive bool

	// Guards mayOutlive, all below, and the votes of the claim's attempts; a leaf.
	mu sync.Mutex
	// Lanes with an attempt that is queued, under way, or kept for a node that is down.
	busyLanes  nodeSet
	mayHold    nodeSet       // nodes that may hold the token
	maxTTLSent time.Duration // the longest TTL that was ever sent
	// The newest attempt. It is nil again when every lane is free, unless it is a release.
	latest    *Attempt
	uncertain *uncertainty // nil while all goes well
}

// uncertainty is what a claim remembers of nodes that failed it.
type uncertainty struct {
	// Nodes to which something was sent, and whose connection broke before the answer.
	brokenAt nodeSet
	// lostKeys are the nodes that had lost the keys since the last extension that was confirmed,
	// and may hold them again because they were refilled. Another client may have held the keys
	// there in between, whichever attempt found it out.
	lostKeys nodeSet
}

// coldClaim is what the claim of a single key without a fence does not need.
type coldClaim struct {
	keys  []string // with the prefix, if there are several
	fence *fence   // nil without one
}

// Init gives the claim its keys, each behind prefix, and its token. The keys must differ from each
// other.
func (c *Claim) Init(prefix string, keys []string, token string) {
	c.prefix = int32(len(prefix))
	if len(keys) == 1 {
		c.buf = token + prefix + keys[0] // one piece of memory for both
		c.singleKey[0] = c.buf[len(token):]
		return
	}
	c.buf = strings.Clone(token) // token itself stays on the caller's stack
	c.cold = &coldClaim{keys: make([]string, len(keys))}
	for i, k := range keys {
		c.cold.keys[i] = prefix + k
	}
}

// Token returns the token.
func (c *Claim) Token() string { return c.buf[:len(c.buf)-len(c.singleKey[0])] }

// keys returns the keys, with the prefix.
func (c *Claim) keys() []string {
	if c.cold != nil && c.cold.keys != nil {
		return c.cold.keys
	}
	return c.singleKey[:]
}

// Len returns the number of keys.
func (c *Claim) Len() int { return len(c.keys()) }

// Key returns the key at i, without the prefix.
func (c *Claim) Key(i int) string { return c.keys()[i][c.prefix:] }

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
	return c.busyLanes|c.brokenAt() != 0 || c.mayOutlive
}

// ensureUncertain returns c.uncertain, to be written to. mu is held.
func (c *Claim) ensureUncertain() *uncertainty {
	if c.uncertain == nil {
		c.uncertain = new(uncertainty)
	}
	return c.uncertain
}

// brokenAt returns the nodes whose connection broke before the answer. mu is held.
func (c *Claim) brokenAt() nodeSet {
	if c.uncertain == nil {
		return 0
	}
	return c.uncertain.brokenAt
}

// lostKeys returns the nodes that had lost the keys. mu is held.
func (c *Claim) lostKeys() nodeSet {
	if c.uncertain == nil {
		return 0
	}
	return c.uncertain.lostKeys
}

// addExtendVote takes the vote of a node on an extension. mu is held.
func (c *Claim) addExtendVote(a *Attempt, i int, r answer) {
	lane := nodeBit(i)
	if r.vote == refused && a.decision != won {
		c.ensureUncertain().lostKeys |= lane
	}
	a.addVote(i, r)
}

// enqueueLanes puts a new attempt on the lanes and returns the nodes that it is to be sent to now.
// mu is held.
func (c *Claim) enqueueLanes(a *Attempt) (start nodeSet) {
	prev := c.latest
	if prev != nil {
		prev.voteUnknown(prev.blockedLanes|prev.deferred, errSuperseded)
	}
	c.latest = a
	c.mayOutlive = c.mayOutlive || a.kind == extend && a.ttl < c.maxTTLSent
	c.maxTTLSent = max(c.maxTTLSent, a.ttl)
	for i := range a.calls {
		lane := nodeBit(i)
		if c.busyLanes&lane != 0 && prev.mux.nodes[i].pipe.Cancel(&prev.calls[i]) {
			prev.undoSend(lane)
			prev.voteUnknown(lane, errSuperseded)
		}
		switch {
		case a.deferred&lane != 0:
		case c.busyLanes&lane != 0:
			a.blockedLanes |= lane
		case a.takeLane(lane):
			start |= lane
		}
	}
	a.tryDecide() // a release that no node needs is won now
	return start
}

// completeLane records the answer of node i to a. It returns the attempt that is to be sent to some
// nodes now: the one that waited for the lane, or a itself if node i was its arbiter. mu is held.
func (c *Claim) completeLane(a *Attempt, i int, r answer) (next *Attempt, start nodeSet) {
	lane := nodeBit(i)
	a.completed |= lane
	switch {
	case r.broken:
		c.ensureUncertain().brokenAt |= lane
	case r.replied && c.uncertain != nil:
		// On this connection, so nothing of an earlier one is still to come.
		c.uncertain.brokenAt &^= lane
	}
	switch {
	case a.kind == release && r.vote != granted:
		a.addVote(i, r)
		return nil, 0 // the node keeps the release, and the lane stays busy, until it is answered
	case a.kind == release:
		c.mayHold &^= lane
		c.busyLanes &^= lane
	case r.leftNothing:
		a.undoSend(lane)
	default:
		c.busyLanes &^= lane
	}
	if a.kind == extend {
		c.addExtendVote(a, i, r)
	} else {
		a.addVote(i, r)
	}
	if w := c.latest; w != nil && w.blockedLanes&lane != 0 {
		w.blockedLanes &^= lane
		if w.takeLane(lane) {
			return w, lane
		}
		w.tryDecide()
	}
	if a.deferred != 0 {
		start = a.askDeferred()
	}
	c.trim()
	return a, start
}

// trim drops the latest attempt when nothing needs it any more: a lease that is only held should be
// small. mu is held.
func (c *Claim) trim() {
	if c.busyLanes == 0 && c.latest != nil && c.latest.kind != release {
		c.latest = nil
	}
}

// pendingUntil returns until when a release that node i could not answer must be kept: as long as
// what was sent there can last. The zero time stands for "until answered": a stopped server may
// execute what a broken connection left behind at any later time, with its whole TTL.
func (c *Claim) pendingUntil(a *Attempt, i int, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.brokenAt().has(i) {
		return time.Time{}
	}
	n := a.detail(i)
	if n.expiry.IsZero() {
		n.expiry = now.Add(c.maxTTLSent)
	}
	return n.expiry
}
