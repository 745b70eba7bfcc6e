package fleet

import (
	"cmp"
	"slices"
)

// Group is one group of nodes. A lock on its keys needs a quorum of them.
type Group struct {
	Name  string   `json:"group,omitempty"`
	Nodes []string `json:"nodes"` // the names of its nodes
}

// Groups returns groups of another type with the same fields.
func Groups[G ~struct {
	Name  string
	Nodes []string
}](groups []G) (all []Group) {
	for _, g := range groups {
		all = append(all, Group(g))
	}
	return all
}

// Sorted returns the groups of a layout in the order of their names, each with its nodes in order.
// The name of the only group is left out, because every key belongs to it. So two layouts are the
// same if these are equal.
func Sorted(groups []Group) []Group {
	groups = slices.Clone(groups)
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	for i := range groups {
		groups[i].Nodes = slices.Sorted(slices.Values(groups[i].Nodes))
	}
	if len(groups) == 1 {
		groups[0].Name = ""
	}
	return groups
}
