package multiplex

import (
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/batch"
)

// Claim is one lease as the nodes see it: its keys, and the token that is their value there. Every attempt to acquire
// needs a Claim with a token of its own. It is made once by Init, and must not be copied after that.
//
// A lane is one claim on one node. On a lane at most one attempt is queued or under way; the next one is handed to the
// node when the one before was answered there, or is known not to have been sent. So on each node the attempts of a
// claim take effect in the order acquire, extend, release, although flushes that are under way together are in no
// order. An attempt that still waits for a lane when a newer one comes is dropped there: the newer one stands for both.
type Claim struct {
	keys   []string  // with the prefix; set once
	one    [1]string // memory of keys where there is one
	prefix int       // length of the prefix of each key; set once
	token  string    // set once

	mu      sync.Mutex    // guards all below, and the votes of the claim's attempts; a leaf
	busy    nodeSet       // lanes with an attempt that is queued, under way, or kept for a node that is down
	maybe   nodeSet       // nodes that may hold the token
	unsure  nodeSet       // nodes where something was sent and the connection broke before the answer
	late    nodeSet       // of these, nodes where it was an extension, which may still take effect
	longest time.Duration // the longest TTL that was ever sent
	// outlast: a node may keep the token for longer than the lease lasts, because an extension failed that some of them
	// may have done, or one to a shorter TTL that some may not.
	outlast bool
	lateTTL time.Duration // the shortest TTL that may still take effect on a node of late
	last    *Attempt      // the newest attempt
	waiter  *Attempt      // the newest attempt that had to wait for a lane
}

// Init gives the claim its keys, each behind prefix, and its token. The keys must differ from each other.
func (c *Claim) Init(prefix string, keys []string, token string) {
	c.keys, c.prefix, c.token = c.one[:0], len(prefix), token
	if len(keys) > 1 {
		c.keys = make([]string, 0, len(keys))
	}
	for _, k := range keys {
		c.keys = append(c.keys, prefix+k)
	}
}

// Token returns the token.
func (c *Claim) Token() string { return c.token }

// Len returns the number of keys.
func (c *Claim) Len() int { return len(c.keys) }

// Key returns the key at i, without the prefix.
func (c *Claim) Key(i int) string { return c.keys[i][c.prefix:] }

// Unsettled reports whether something of the claim may still take effect on a node, or last there longer than the lease,
// so that letting it expire is not enough to leave nothing behind.
func (c *Claim) Unsettled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy|c.unsure != 0 || c.outlast
}

// admit puts a new attempt on the lanes and returns the nodes that it is to be handed to now. mu is held.
func (c *Claim) admit(a *Attempt) (start nodeSet) {
	if w := c.waiter; w != nil && w.waiting != 0 {
		w.drop(w.waiting, errSuperseded)
	}
	prev := c.last
	c.last = a
	c.outlast = c.outlast || a.kind == extend && a.ttl < c.longest
	c.longest = max(c.longest, a.ttl)
	for i := range a.calls {
		lane := one(i)
		if c.busy&lane != 0 && prev.calls[i].Cancel() == batch.Cancelled {
			prev.unsend(lane)
			prev.drop(lane, errSuperseded)
		}
		switch {
		case c.busy&lane != 0:
			a.waiting |= lane
			c.waiter = a
		case a.begin(lane):
			start |= lane
		}
	}
	a.conclude() // a release that no node needs is won now
	return start
}

// settle records the answer of node i to a, and returns the attempt that waited for the lane if it is to be handed to
// the node now. mu is held.
func (c *Claim) settle(a *Attempt, i int, r answer) (next *Attempt) {
	lane := one(i)
	switch {
	case r.broken:
		c.unsure |= lane
		if a.kind == extend {
			if c.late == 0 || a.ttl < c.lateTTL {
				c.lateTTL = a.ttl
			}
			c.late |= lane
		}
	case r.replied: // on this connection, so nothing of an earlier one is still to come
		c.unsure &^= lane
	}
	switch {
	case a.kind == release && r.vote != granted:
		a.count(i, r)
		return nil // the node keeps the release, and the lane stays busy, until it is answered
	case a.kind == release:
		c.maybe &^= lane
		c.busy &^= lane
	case r.nothing:
		a.unsend(lane)
	default:
		c.busy &^= lane
	}
	if a.kind == extend && r.vote == granted && c.late.has(i) && a.ttl > c.lateTTL {
		// A stopped server may still read the shorter TTL from the connection that broke.
		r = answer{err: errLate}
	}
	a.count(i, r)
	if w := c.waiter; w != nil && w.waiting&lane != 0 {
		w.waiting &^= lane
		if w.begin(lane) {
			return w
		}
		w.conclude()
	}
	return nil
}

// keepUntil tells how long a release that node i could not answer must be kept: as long as what was sent there can last.
// The zero time stands for "until answered": what a broken connection left behind may be executed by a stopped server
// at any later time, with its whole TTL.
func (c *Claim) keepUntil(a *Attempt, i int, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unsure.has(i) {
		return time.Time{}
	}
	n := a.note(i)
	if n.expiry.IsZero() {
		n.expiry = now.Add(c.longest)
	}
	return n.expiry
}
