package multiplex

import (
	"time"

	"github.com/lockpipe/lockpipe/internal/keyset"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/script"
)

// MaxAny is the most keys that AcquireAny takes.
const MaxAny = script.MaxKeys

// AcquireAny starts one attempt to take one of the keys of a new claim on a quorum of nodes for
// ttl. Each node takes the first key that is free there. The attempt wins if a quorum took the same
// key. From then on the claim is for that key alone. If a node took another one, that is released
// at once. The claim has 2 to MaxAny keys, and no fence.
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
	n := len(a.mux.nodes)
	return a.decision != won && a.granted != 0 && (a.granted|a.refused).count() >= quorum(n)
}

// held returns the keys that were granted, or are asked for.
func (c *Claim) held() *keyset.Keys {
	if one := c.keys.One(); one != nil {
		return &one.Keys
	}
	return &c.keys
}

// keysFor returns the keys that a new attempt is for. A release is for all keys, if a node may have
// another one than the one that was granted. mu is held.
func (c *Claim) keysFor(a *Attempt) *keyset.Keys {
	one := c.keys.One()
	if a.op.Kind == node.Release && one != nil && nodeSet(one.Clean) != a.mux.all() {
		return &c.keys
	}
	return c.held()
}

// votes returns how many nodes granted and refused. Of an acquire of any key, those granted that
// took the same key, which has that index. The others that took one refused it. claim.mu is held.
func (a *Attempt) votes() (granted, refused int, index int32) {
	if !a.op.Any {
		return a.granted.count(), a.refused.count(), -1
	}
	for s := a.granted; s != 0; s &= s - 1 {
		key, count := a.details[s.first()].keyIndex, 0
		for o := s; o != 0; o &= o - 1 {
			if a.details[o.first()].keyIndex == key {
				count++
			}
		}
		if count > granted {
			granted, index = count, key
		}
	}
	return granted, a.granted.count() - granted + a.refused.count(), index
}

// takeOne makes the key that a quorum took the only one of the claim. claim.mu is held.
func (c *Claim) takeOne(a *Attempt) {
	_, _, index := a.votes()
	one := c.keys.SetOne(int(index))
	one.Clean = uint64(a.mux.all() &^ c.acquired)
	for s := a.granted; s != 0; s &= s - 1 {
		c.sortOut(a, s.first())
	}
}

// sortOut notes what node i took, and releases it if it is another key. claim.mu is held. The
// release has a claim of its own. If the node is sent it before the acquire, which is possible
// after an outage, the release of the lease deletes the other keys too.
func (c *Claim) sortOut(a *Attempt, i int) {
	key, one := int(a.details[i].keyIndex), c.keys.One()
	if key == one.Index {
		one.Clean |= uint64(nodeBit(i))
		return
	}
	other := &Claim{acquired: nodeBit(i), divided: true, maxTTLSent: c.maxTTLSent}
	other.keys.InitOne(&c.keys, key)
	a.mux.Release(other, 1)
}
