package parts

import (
	"slices"
	"time"

	"github.com/lockpipe/lockpipe/internal/layout"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Claim is one lease as the nodes see it: a multiplex.Claim for each of its parts. Init makes it,
// once. It must not be copied after that.
type Claim struct {
	first multiplex.Claim
	at    *place // set once
}

// Init gives the claim its keys, without the prefix, and its token, which ends with suffix. The
// keys must differ from each other.
func (c *Claim) Init(m *Mux, keys []string, token, suffix string) {
	if at, alone := m.onlyPlace(keys); alone {
		c.at = &m.places[at.Mux][at.System]
		m.initPart(&c.first, at, keys, token, suffix)
		return
	}
	split := m.split(keys)
	at := m.places[split[0].at.Mux][split[0].at.System]
	at.keys, at.more = slices.Clone(keys), make([]part, len(split)-1)
	c.at = &at
	m.initPart(&c.first, split[0].at, split[0].keys, token, suffix)
	for i := range c.at.more {
		p, s := &c.at.more[i], split[i+1]
		p.group, p.mux = s.at.Mux, m.muxes[s.at.Mux]
		m.initPart(&p.claim, s.at, s.keys, token, suffix)
	}
}

// ClaimAndAttempts is memory for a claim, and for the acquire and the release of its first part.
type ClaimAndAttempts struct {
	claim    Claim
	attempts multiplex.Attempts
}

// Joined returns the claim, which uses the memory of the attempts. It is called once.
func (c *ClaimAndAttempts) Joined() *Claim {
	c.claim.first.UseMemory(&c.attempts)
	return &c.claim
}

// initPart makes the claim of one part: for these keys, and for the quorums of their place.
func (m *Mux) initPart(c *multiplex.Claim, at layout.Place, keys []string, token, suffix string) {
	c.Init(m.prefix, keys, token, suffix)
	c.UseSystem(uint8(at.System))
}

// onlyPlace returns the place of all keys, if they have no other.
func (m *Mux) onlyPlace(keys []string) (at layout.Place, alone bool) {
	for i, key := range keys {
		places := m.layout.Places(key)
		if len(places) > 1 || i > 0 && places[0] != at {
			return at, false
		}
		at = places[0]
	}
	return at, true
}

// share is the keys of one place.
type share struct {
	at   layout.Place
	keys []string
}

// split returns the keys of each place, in the fixed order of the places: contenders for the same
// keys name the same one of them as the first that was refused.
func (m *Mux) split(keys []string) (shares []share) {
	for _, key := range keys {
		for _, at := range m.layout.Places(key) {
			i := slices.IndexFunc(shares, func(s share) bool { return s.at == at })
			if i < 0 {
				i = len(shares)
				shares = append(shares, share{at: at})
			}
			shares[i].keys = append(shares[i].keys, key)
		}
	}
	slices.SortFunc(shares, func(a, b share) int {
		if a.at.Mux != b.at.Mux {
			return a.at.Mux - b.at.Mux
		}
		return a.at.System - b.at.System
	})
	return shares
}

// Group returns the index of the group of the first part.
func (c *Claim) Group() int { return c.at.group }

// HasSeveral reports whether the claim has more than one part.
func (c *Claim) HasSeveral() bool { return len(c.at.more) > 0 }

// Token returns the token.
func (c *Claim) Token() string { return c.first.Token() }

// Len returns the number of keys that were granted, or are asked for.
func (c *Claim) Len() int {
	if c.at.keys != nil {
		return len(c.at.keys)
	}
	return c.first.Len()
}

// Key returns the key at i of these, without the prefix.
func (c *Claim) Key(i int) string {
	if c.at.keys != nil {
		return c.at.keys[i]
	}
	return c.first.Key(i)
}

// Fence has the claim ask for the numbers from first to last: see multiplex.Claim.Fence. Each part
// asks for the same numbers, so they are above those of every earlier lease on any of the keys.
func (c *Claim) Fence(before time.Time, first, last int64) {
	c.first.Fence(before, first, last)
	for i := range c.at.more {
		c.at.more[i].claim.Fence(before, first, last)
	}
}

// Fences returns the numbers that the claim asked for; 0 without a fence.
func (c *Claim) Fences() (first, last int64) { return c.first.Fences() }

// MarkOutlives notes that the nodes keep the token for longer than the lease is to last. One part
// tells it for all.
func (c *Claim) MarkOutlives() { c.first.MarkOutlives() }

// Certain reports whether the nodes hold what the claim says and nothing else: see
// multiplex.Claim.Certain.
func (c *Claim) Certain() bool {
	for i := range c.at.more {
		if !c.at.more[i].claim.Certain() {
			return false
		}
	}
	return c.first.Certain()
}

// NeedsCleanup reports whether something of the claim may still take effect on a node: see
// multiplex.Claim.NeedsCleanup.
func (c *Claim) NeedsCleanup() bool {
	for i := range c.at.more {
		if c.at.more[i].claim.NeedsCleanup() {
			return true
		}
	}
	return c.first.NeedsCleanup()
}
