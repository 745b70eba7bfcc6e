package layout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/internal/layout"
)

func TestID_IsTheSameForTheSameGroupsInAnyOrder(t *testing.T) {
	a := layout.Group{Name: "a", Nodes: []string{"h1:1", "h2:1", "h3:1"}}
	shuffled := layout.Group{Name: "a", Nodes: []string{"h3:1", "h1:1", "h2:1"}}
	b := layout.Group{Name: "b", Nodes: []string{"h4:1"}}
	id := func(groups ...layout.Group) string { return layout.ID(groups) }
	require.Equal(t, id(a, b), id(b, shuffled))
	require.NotEqual(t, id(a), id(b))
	require.NotEqual(t, id(a, b), id(a))
	renamed := layout.Group{Name: "c", Nodes: a.Nodes}
	require.Equal(t, id(a), id(renamed), "with one group every key belongs to it")
	require.NotEqual(t, id(a, b), id(renamed, b), "keys are placed by the names")
	require.Len(t, id(a), 12)
}
