// Package layout says which groups of nodes there are, and which of them a key belongs to. It is
// pure: it knows neither connections nor locks.
package layout

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// Group is one group of nodes. A lock on its keys needs a quorum of them.
type Group struct {
	Name  string
	Nodes []string // the names of its nodes
}

// ID returns a short name of a layout: the same for the same groups of the same nodes, in whatever
// order. The name of the only group does not count, because every key belongs to it.
func ID(groups []Group) string {
	groups = slices.Clone(groups)
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	h := sha256.New()
	for _, g := range groups {
		if len(groups) > 1 {
			h.Write([]byte("group " + g.Name + "\n"))
		}
		h.Write([]byte(strings.Join(slices.Sorted(slices.Values(g.Nodes)), "\n") + "\n"))
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
