package multiplex

import (
	"math"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/lockpipe/lockpipe/script"
)

// MaxAny is the most keys that AcquireAny takes.
const MaxAny = script.MaxKeys

// AcquireAny starts one attempt to take one of the keys of a new claim on a quorum of nodes for
// ttl. Each node takes the first key that is free there. The attempt wins if a quorum took the same
// key: a quorum of each set that the claim needs. From then on the claim is for that key alone. If
// a node took another one, that is released at once. The claim has 2 to MaxAny keys, and no fence.
//
// Exclusion is that of Acquire: the nodes that took the key are a quorum, each of them set it as by
// SET NX PX, and the validity counts from before the first byte was sent. A node that took another
// key has no vote for this one: it counts as one that refused.
func (m *Mux) AcquireAny(c *Claim, ttl time.Duration) *Attempt {
	m.counts.attempts.Add(1)
	a := m.newAttempt(c, node.Acquire, ttl, m.timeoutFor(1), ttl/2)
	a.op.Any = true
	return m.submit(a, m.log)
}

// Split reports, after Wait of an AcquireAny that was not won, whether a quorum answered, and a
// node took a key. Then others took keys at the same moment, and another attempt may find a key
// that is free on all nodes.
func (a *Attempt) Split() bool {
	a.claim.mu.Lock()
	defer a.claim.mu.Unlock()
	return a.decision != quorum.Won && a.granted != 0 && a.system().IsQuorum(a.granted|a.refused)
}

// held returns the keys that were granted, or are asked for.
func (c *Claim) held() *ids.Keys {
	if one := c.keys.One(); one != nil {
		return &one.Keys
	}
	return &c.keys
}

// keysFor returns the keys that a new attempt is for. A release is for all keys, if a node may have
// another one than the one that was granted. mu is held.
func (c *Claim) keysFor(a *Attempt) *ids.Keys {
	one := c.keys.One()
	if a.op.Kind == node.Release && one != nil && quorum.Nodes(one.Clean) != a.system().Nodes() {
		return &c.keys
	}
	return c.held()
}

// votes returns which nodes granted and refused. Of an acquire of any key, those granted that took
// the same key, which has that index: the key that is nearest to a quorum of each set. The others
// that took one refused it. claim.mu is held.
func (a *Attempt) votes() (granted, refused quorum.Nodes, index int32) {
	if !a.op.Any {
		return a.granted, a.refused, -1
	}
	q, nearest := a.system(), math.MinInt
	open := q.Nodes() &^ (a.granted | a.refused | a.unknown)
	for s := a.granted; s != 0; s &= s - 1 {
		key, same := a.details[s.Lowest()].keyIndex, quorum.Nodes(0)
		for o := s; o != 0; o &= o - 1 {
			if i := o.Lowest(); a.details[i].keyIndex == key {
				same |= quorum.Node(i)
			}
		}
		if margin := q.Margin(same | open); margin > nearest {
			nearest, granted, index = margin, same, key
		}
	}
	return granted, a.refused | a.granted&^granted, index
}

// takeOne makes the key that a quorum took the only one of the claim. claim.mu is held.
func (c *Claim) takeOne(a *Attempt) {
	_, _, index := a.votes()
	one := c.keys.SetOne(int(index))
	one.Clean = uint64(a.system().Nodes() &^ c.acquired)
	for s := a.granted; s != 0; s &= s - 1 {
		c.sortOut(a, s.Lowest())
	}
}

// sortOut notes what node i took, and releases it if it is another key. claim.mu is held. The
// release has a claim of its own. If the node is sent it before the acquire, which is possible
// after an outage, the release of the lease deletes the other keys too.
func (c *Claim) sortOut(a *Attempt, i int) {
	key, one := int(a.details[i].keyIndex), c.keys.One()
	if key == one.Index {
		one.Clean |= uint64(quorum.Node(i))
		return
	}
	other := &Claim{
		acquired: quorum.Node(i), divided: true, quorums: c.quorums, maxTTLSent: c.maxTTLSent,
	}
	other.keys.InitOne(&c.keys, key)
	a.mux.Release(other, 1)
}
