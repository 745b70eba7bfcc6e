package fleet

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
)

// Goal: nodes are divided in their order, each stage has the layouts that it needs, and the names
// of the groups lead back to them.
func TestLayout_OfEachStage(t *testing.T) {
	old, next := strings.Split("abcd", ""), strings.Split("efgh", "")
	group := func(name string, nodes ...string) lockpipe.Group {
		return lockpipe.Group{Name: name, Nodes: nodes}
	}
	oldGroups := []lockpipe.Group{group("g1", "a", "b"), group("g2", "c", "d")}
	newGroups := []lockpipe.Group{group("g3", "e", "f"), group("g4", "g", "h")}
	whole := []lockpipe.Group{group("g2", next...)}
	for _, tc := range []struct {
		groups int
		stage  Stage
		want   lockpipe.Config
	}{
		{1, Old, lockpipe.Config{Nodes: old}},
		{1, Both, lockpipe.Config{Nodes: old, Next: whole}},
		{1, New, lockpipe.Config{Groups: whole}},
		{2, Old, lockpipe.Config{Groups: oldGroups}},
		{2, Both, lockpipe.Config{Groups: oldGroups, Next: newGroups}},
		{2, New, lockpipe.Config{Groups: newGroups}},
	} {
		var cfg lockpipe.Config
		UseNodes(&cfg, old, next, tc.groups, tc.stage)
		require.Equal(t, tc.want, cfg)
	}
	for i, g := range oldGroups {
		require.Equal(t, i, GroupIndex(g.Name))
	}
	require.Zero(t, GroupIndex(""), "the name of a single group")
}
