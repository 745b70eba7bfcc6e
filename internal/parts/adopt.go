package parts

import (
	"slices"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Keep starts to keep the keys of a claim: see multiplex.Mux.Keep. It is won when each part is.
func (m *Mux) Keep(c *Claim, ttl time.Duration) Attempt {
	if len(c.at.more) == 0 {
		return c.at.mux.Keep(&c.first, ttl)
	}
	return c.start(releasing, func(p *one) { p.attempt = p.mux.Keep(p.claim, ttl) })
}

// Handle returns the handle of a claim, as text: see ids.Handle.
func (m *Mux) Handle(c *Claim) string {
	_, last := c.Fences()
	h := ids.Handle{Token: c.Token(), Fence: last}
	for i := range c.Len() {
		h.Keys = append(h.Keys, c.Key(i))
	}
	for _, p := range c.parts() {
		h.Sets = append(h.Sets, m.setIDs(&p)...)
	}
	return h.Text(m.prefix)
}

// setIDs returns a number for each set in which the part needs a quorum, whatever the order of the
// nodes is.
func (m *Mux) setIDs(p *one) (all []int64) {
	for _, set := range p.mux.SetsOf(p.claim) {
		id := uint64(0)
		for ; set != 0; set &= set - 1 {
			id += ids.Weight(m.layout.Muxes[p.group].Nodes[set.Lowest()], "")
		}
		all = append(all, int64(id))
	}
	return all
}

// Adopt has the acquire of the claim take the keys of a handle: see multiplex.Claim.Adopt. While a
// fleet moves, a part of which no set had the keys takes free keys, if each key is in a part of
// which a set had it.
func (m *Mux) Adopt(c *Claim, h *ids.Handle, takes string) {
	all, decided := c.parts(), make(map[string]bool)
	had := func(p *one) bool {
		hasID := func(id int64) bool { return slices.Contains(h.Sets, id) }
		return slices.ContainsFunc(m.setIDs(p), hasID)
	}
	for _, p := range all {
		for i := range p.claim.Len() {
			if had(&p) {
				decided[p.claim.Key(i)] = true
			}
		}
	}
	for _, p := range all {
		if len(decided) == c.Len() && !had(&p) {
			p.claim.Adopt(h.Token, multiplex.TakesFree)
		} else {
			p.claim.Adopt(h.Token, takes)
		}
	}
}

// Adopts reports whether the claim is for keys that were kept.
func (c *Claim) Adopts() bool { return c.first.Adopts() }

// Adopted says that a lease of the claim has begun: see multiplex.Claim.Adopted.
func (c *Claim) Adopted() {
	for _, p := range c.parts() {
		p.claim.Adopted()
	}
}

// Adoption explains, after Wait, an attempt that was to adopt keys.
func (s *several) Adoption(seen *multiplex.Adoption) {
	for _, p := range s.parts {
		if p.attempt != nil {
			p.attempt.Adoption(seen)
		}
	}
}
