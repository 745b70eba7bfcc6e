package nodes

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
)

// Goal: nodes are divided in their order, and the names of the groups lead back to them.
func TestGroups_DivideTheNodesInOrder(t *testing.T) {
	urls := strings.Split("abcdef", "")
	groups := Groups(urls, 3)
	require.Equal(t, []lockpipe.Group{
		{Name: "g1", Nodes: urls[:2]},
		{Name: "g2", Nodes: urls[2:4]},
		{Name: "g3", Nodes: urls[4:]},
	}, groups)
	for i, g := range groups {
		require.Equal(t, i, GroupIndex(g.Name))
	}
	require.Zero(t, GroupIndex(""), "the name of a single group")
}
