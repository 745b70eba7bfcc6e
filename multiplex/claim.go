package multiplex

import (
	"strings"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/batch"
)

// Claim is one lease as the nodes see it: its keys, and the token that is their value there. Every
// attempt to acquire needs a Claim with a token of its own. It is made once by Init, and must not
// be copied after that.
//
// A lane is one claim on one node. On a lane at most one attempt is queued or under way; the next
// one is handed to the node when the one before was answered there, or is known not to have been
// sent. So on each node the attempts of a claim take effect in the order acquire, extend, release,
// although flushes that are under way together are in no order. An attempt that still waits for a
// lane when a newer one comes is dropped there: the newer one stands for both.
type Claim struct {
	text   string    // the token, and behind it the only key, with the prefix; set once
	one    [1]string // the only key; set once
	extra  *extra    // set once
	prefix int32     // length of the prefix of each key; set once

	// outlast: a node may keep the token for longer than the lease lasts, because an extension
	// failed that some of them may have done, or one to a shorter TTL that some may not.
	outlast bool

	// Guards outlast, all below, and the votes of the claim's attempts; a leaf.
	mu sync.Mutex
	// Lanes with an attempt that is queued, under way, or kept for a node that is down.
	busy    nodeSet
	maybe   nodeSet       // nodes that may hold the token
	longest time.Duration // the longest TTL that was ever sent
	// The newest attempt; nil again when every lane is free, unless it is a release.
	last   *Attempt
	doubts *doubts // nil while all goes well
}

// doubts are what a claim has to remember of nodes that failed it.
type doubts struct {
	// Nodes where something was sent and the connection broke before the answer.
	unsure  nodeSet
	late    nodeSet       // of these, nodes where it was an extension, which may still take effect
	lateTTL time.Duration // the shortest TTL that may still take effect on a node of late
	lateAt  time.Time     // when the first of these extensions was sent
	// missed are the nodes that had lost the keys since the last extension that was confirmed, and
	// may hold them again because they were refilled. Another may have held the keys there in
	// between, whichever attempt found it out.
	missed nodeSet
}

// extra is what the claim of a single key without a fence has no need of.
type extra struct {
	keys  []string // with the prefix, where there are several
	fence *fence   // nil without one
}

// Init gives the claim its keys, each behind prefix, and its token. The keys must differ from each
// other.
func (c *Claim) Init(prefix string, keys []string, token string) {
	c.prefix = int32(len(prefix))
	if len(keys) == 1 {
		c.text = token + prefix + keys[0] // one piece of memory for both
		c.one[0] = c.text[len(token):]
		return
	}
	c.text = strings.Clone(token) // token itself stays on the caller's stack
	c.extra = &extra{keys: make([]string, len(keys))}
	for i, k := range keys {
		c.extra.keys[i] = prefix + k
	}
}

// Token returns the token.
func (c *Claim) Token() string { return c.text[:len(c.text)-len(c.one[0])] }

// keys returns the keys, with the prefix.
func (c *Claim) keys() []string {
	if c.extra != nil && c.extra.keys != nil {
		return c.extra.keys
	}
	return c.one[:]
}

// Len returns the number of keys.
func (c *Claim) Len() int { return len(c.keys()) }

// Key returns the key at i, without the prefix.
func (c *Claim) Key(i int) string { return c.keys()[i][c.prefix:] }

// Outlast notes that the nodes keep the token for longer than the lease is to last.
func (c *Claim) Outlast() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outlast = true
}

// Clean reports whether all that was sent for the claim was answered as it should, so that another
// lease can go on with it.
func (c *Claim) Clean() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.outlast && c.doubts == nil
}

// Unsettled reports whether something of the claim may still take effect on a node, or last there
// longer than the lease, so that letting it expire is not enough to leave nothing behind.
func (c *Claim) Unsettled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy|c.unsure() != 0 || c.outlast
}

// doubt returns c.doubts, to be written to. mu is held.
func (c *Claim) doubt() *doubts {
	if c.doubts == nil {
		c.doubts = new(doubts)
	}
	return c.doubts
}

// unsure are the nodes where a connection broke before the answer. mu is held.
func (c *Claim) unsure() nodeSet {
	if c.doubts == nil {
		return 0
	}
	return c.doubts.unsure
}

// missed are the nodes that had lost the keys. mu is held.
func (c *Claim) missed() nodeSet {
	if c.doubts == nil {
		return 0
	}
	return c.doubts.missed
}

// broke notes that the connection to a node broke before it answered a. mu is held.
func (c *Claim) broke(a *Attempt, lane nodeSet) {
	d := c.doubt()
	d.unsure |= lane
	if a.kind != extend {
		return
	}
	if d.late == 0 || a.ttl < d.lateTTL {
		d.lateTTL = a.ttl
	}
	if d.late == 0 || a.sent.Before(d.lateAt) {
		d.lateAt = a.sent
	}
	d.late |= lane
}

// extended takes the vote of a node on an extension. mu is held.
func (c *Claim) extended(a *Attempt, i int, r answer) {
	lane := one(i)
	if r.vote == refused && a.decision != won {
		c.doubt().missed |= lane
	}
	if d := c.doubts; d != nil && r.vote == granted && d.late != 0 && a.ttl > d.lateTTL &&
		(d.late.has(i) || r.line.mayRepeat(d.lateAt)) {
		// A stopped server may still read the shorter TTL from the connection that broke, this
		// node's or another's.
		r = answer{err: errLate}
	}
	a.count(i, r)
}

// admit puts a new attempt on the lanes and returns the nodes that it is to be handed to now. mu is
// held.
func (c *Claim) admit(a *Attempt) (start nodeSet) {
	prev := c.last
	if prev != nil {
		prev.drop(prev.waiting|prev.later, errSuperseded)
	}
	c.last = a
	c.outlast = c.outlast || a.kind == extend && a.ttl < c.longest
	c.longest = max(c.longest, a.ttl)
	for i := range a.calls {
		lane := one(i)
		if c.busy&lane != 0 && prev.mux.nodes[i].pipe.Cancel(&prev.calls[i]) == batch.Cancelled {
			prev.unsend(lane)
			prev.drop(lane, errSuperseded)
		}
		switch {
		case a.later&lane != 0:
		case c.busy&lane != 0:
			a.waiting |= lane
		case a.begin(lane):
			start |= lane
		}
	}
	a.conclude() // a release that no node needs is won now
	return start
}

// settle records the answer of node i to a, and returns the attempt that is to be handed to some
// nodes now: the one that waited for the lane, or a itself where this was its judge. mu is held.
func (c *Claim) settle(a *Attempt, i int, r answer) (next *Attempt, start nodeSet) {
	lane := one(i)
	a.settled |= lane
	switch {
	case r.broken:
		c.broke(a, lane)
	case r.replied && c.doubts != nil:
		// On this connection, so nothing of an earlier one is still to come.
		c.doubts.unsure &^= lane
	}
	switch {
	case a.kind == release && r.vote != granted:
		a.count(i, r)
		return nil, 0 // the node keeps the release, and the lane stays busy, until it is answered
	case a.kind == release:
		c.maybe &^= lane
		c.busy &^= lane
	case r.nothing:
		a.unsend(lane)
	default:
		c.busy &^= lane
	}
	if a.kind == extend {
		c.extended(a, i, r)
	} else {
		a.count(i, r)
	}
	if w := c.last; w != nil && w.waiting&lane != 0 {
		w.waiting &^= lane
		if w.begin(lane) {
			return w, lane
		}
		w.conclude()
	}
	if a.later != 0 {
		start = a.open()
	}
	c.rest()
	return a, start
}

// rest drops the last attempt when nothing needs it any more: a lease that is only held should be
// small. mu is held.
func (c *Claim) rest() {
	if c.busy == 0 && c.last != nil && c.last.kind != release {
		c.last = nil
	}
}

// keepUntil tells how long a release that node i could not answer must be kept: as long as what was
// sent there can last. The zero time stands for "until answered": what a broken connection left
// behind may be executed by a stopped server at any later time, with its whole TTL.
func (c *Claim) keepUntil(a *Attempt, i int, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unsure().has(i) {
		return time.Time{}
	}
	n := a.note(i)
	if n.expiry.IsZero() {
		n.expiry = now.Add(c.longest)
	}
	return n.expiry
}
