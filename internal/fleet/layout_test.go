package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSorted_IsTheSameForTheSameGroupsInAnyOrder(t *testing.T) {
	a := Group{Name: "a", Nodes: []string{"h1:1", "h2:1", "h3:1"}}
	shuffled := Group{Name: "a", Nodes: []string{"h3:1", "h1:1", "h2:1"}}
	b := Group{Name: "b", Nodes: []string{"h4:1"}}
	sorted := func(groups ...Group) []Group { return Sorted(groups) }
	require.Equal(t, sorted(a, b), sorted(b, shuffled))
	require.NotEqual(t, sorted(a), sorted(b))
	require.NotEqual(t, sorted(a, b), sorted(a))
	renamed := Group{Name: "c", Nodes: a.Nodes}
	require.Equal(t, sorted(a), sorted(renamed), "with one group every key belongs to it")
	require.NotEqual(t, sorted(a, b), sorted(renamed, b), "keys are placed by the names")
	require.Equal(t, "h3:1", shuffled.Nodes[0], "the argument does not change")
}
