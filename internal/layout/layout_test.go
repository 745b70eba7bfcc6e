package layout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/internal/layout"
)

func TestSorted_IsTheSameForTheSameGroupsInAnyOrder(t *testing.T) {
	a := layout.Group{Name: "a", Nodes: []string{"h1:1", "h2:1", "h3:1"}}
	shuffled := layout.Group{Name: "a", Nodes: []string{"h3:1", "h1:1", "h2:1"}}
	b := layout.Group{Name: "b", Nodes: []string{"h4:1"}}
	sorted := func(groups ...layout.Group) []layout.Group { return layout.Sorted(groups) }
	require.Equal(t, sorted(a, b), sorted(b, shuffled))
	require.NotEqual(t, sorted(a), sorted(b))
	require.NotEqual(t, sorted(a, b), sorted(a))
	renamed := layout.Group{Name: "c", Nodes: a.Nodes}
	require.Equal(t, sorted(a), sorted(renamed), "with one group every key belongs to it")
	require.NotEqual(t, sorted(a, b), sorted(renamed, b), "keys are placed by the names")
	require.Equal(t, "h3:1", shuffled.Nodes[0], "the argument does not change")
}
