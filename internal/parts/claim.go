package parts

import (
	"cmp"
	"slices"

	"github.com/lockpipe/lockpipe/multiplex"
)

// Claim is one lease as the nodes see it: a multiplex.Claim for each of its parts. Init makes it,
// once. It must not be copied after that.
type Claim struct {
	first multiplex.Claim
	at    *Place // set once
}

// part is one of the further parts of a claim.
type part struct {
	at    *Place
	claim multiplex.Claim
}

// Init gives the claim its keys, without the prefix, and its token, which ends with suffix. The
// keys must differ from each other.
func (c *Claim) Init(m *Mux, keys []string, token, suffix string) {
	init := func(claim *multiplex.Claim, at *Place, keys []string) {
		claim.Init(m.prefix, keys, token, suffix)
		claim.UseSystem(uint8(at.System))
	}
	if c.at = m.Layout.onlyPlace(keys); c.at != nil {
		init(&c.first, c.at, keys)
		return
	}
	shares := m.Layout.split(keys)
	at := *shares[0].at
	at.keys, at.more = slices.Clone(keys), make([]part, len(shares)-1)
	c.at = &at
	init(&c.first, c.at, shares[0].keys)
	for i, s := range shares[1:] {
		p := &at.more[i]
		p.at = s.at
		init(&p.claim, p.at, s.keys)
	}
}

// UseMemory gives the first part memory for its acquire and its release: see
// multiplex.Claim.UseMemory.
func (c *Claim) UseMemory(a *multiplex.Attempts) { c.first.UseMemory(a) }

// onlyPlace returns the place of all keys; nil if they have several.
func (l *Layout) onlyPlace(keys []string) (at *Place) {
	for i, key := range keys {
		places := l.Places(key)
		if len(places) > 1 || i > 0 && places[0] != at {
			return nil
		}
		at = places[0]
	}
	return at
}

// share is the keys of one place.
type share struct {
	at   *Place
	keys []string
}

// split returns the keys of each place, in the fixed order of the places: contenders for the same
// keys name the same one of them as the first that was refused.
func (l *Layout) split(keys []string) (shares []share) {
	for _, key := range keys {
		for _, at := range l.Places(key) {
			i := slices.IndexFunc(shares, func(s share) bool { return s.at == at })
			if i < 0 {
				i = len(shares)
				shares = append(shares, share{at: at})
			}
			shares[i].keys = append(shares[i].keys, key)
		}
	}
	slices.SortFunc(shares, func(a, b share) int {
		return cmp.Or(a.at.Site-b.at.Site, a.at.System-b.at.System)
	})
	return shares
}

// parts yields all parts of the claim.
func (c *Claim) parts(yield func(at *Place, claim *multiplex.Claim) bool) {
	more := yield(c.at, &c.first)
	for i := 0; more && i < len(c.at.more); i++ {
		more = yield(c.at.more[i].at, &c.at.more[i].claim)
	}
}

// Group returns the index of the Site of the first part.
func (c *Claim) Group() int { return c.at.Site }

// HasSeveral reports whether the claim has more than one part.
func (c *Claim) HasSeveral() bool { return len(c.at.more) > 0 }

// Token returns the token.
func (c *Claim) Token() string { return c.first.Token() }

// Len returns the number of keys that were granted, or are asked for.
func (c *Claim) Len() int {
	if c.HasSeveral() {
		return len(c.at.keys)
	}
	return c.first.Len()
}

// Key returns the key at i of these, without the prefix.
func (c *Claim) Key(i int) string {
	if c.HasSeveral() {
		return c.at.keys[i]
	}
	return c.first.Key(i)
}

// Keys returns all of them in a new slice, in the order of the call, without the prefix.
func (c *Claim) Keys() []string {
	keys := make([]string, c.Len())
	for i := range keys {
		keys[i] = c.Key(i)
	}
	return keys
}

// Fence has the claim ask for the numbers from first to last: see multiplex.Claim.Fence. Each part
// asks for the same numbers, so they are above those of every earlier lease on any of the keys.
func (c *Claim) Fence(first, last int64) {
	for _, claim := range c.parts {
		claim.Fence(first, last)
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
	for _, claim := range c.parts {
		if !claim.Certain() {
			return false
		}
	}
	return true
}

// NeedsCleanup reports whether something of the claim may still take effect on a node: see
// multiplex.Claim.NeedsCleanup.
func (c *Claim) NeedsCleanup() bool {
	for _, claim := range c.parts {
		if claim.NeedsCleanup() {
			return true
		}
	}
	return false
}
