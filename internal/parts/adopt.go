package parts

import (
	"slices"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Handle returns the handle of a claim, as text: see ids.Handle.
func (m *Mux) Handle(c *Claim) string {
	_, last := c.Fences()
	h := ids.Handle{Keys: c.Keys(), Token: c.Token(), Fence: last}
	for at := range c.parts {
		h.Sets = append(h.Sets, at.ids...)
	}
	return h.Text(m.prefix)
}

// Adopt has the acquire of the claim take the keys of a handle: see multiplex.Claim.Adopt. While a
// fleet moves, a part of which no set had the keys takes free keys, if each key is in a part of
// which a set had it.
func (c *Claim) Adopt(h *ids.Handle, takes string) {
	hadKeys := func(at *Place) bool {
		return slices.ContainsFunc(at.ids, func(id int64) bool {
			return slices.Contains(h.Sets, id)
		})
	}
	decided := make(map[string]bool)
	for at, claim := range c.parts {
		for i := range claim.Len() {
			if hadKeys(at) {
				decided[claim.Key(i)] = true
			}
		}
	}
	for at, claim := range c.parts {
		if len(decided) == c.Len() && !hadKeys(at) {
			claim.Adopt(h.Token, multiplex.TakesFree)
		} else {
			claim.Adopt(h.Token, takes)
		}
	}
}

// Adopts reports whether the claim is for keys that were kept.
func (c *Claim) Adopts() bool { return c.first.Adopts() }

// Adopted says that a lease of the claim has begun: see multiplex.Claim.Adopted.
func (c *Claim) Adopted() {
	for _, claim := range c.parts {
		claim.Adopted()
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
