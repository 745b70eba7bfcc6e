package parts_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/internal/quorum"
)

func group(name string, nodes ...string) fleet.Group {
	return fleet.Group{Name: name, Nodes: nodes}
}

func newLayout(t *testing.T, groups, next []fleet.Group) *parts.Layout {
	t.Helper()
	l, err := parts.NewLayout(groups, next)
	require.NoError(t, err)
	return l
}

// requireSites looks at what others see of the sites.
func requireSites(t *testing.T, l *parts.Layout, want ...parts.Site) {
	t.Helper()
	var sites []parts.Site
	for _, s := range l.Sites {
		sites = append(sites, parts.Site{Nodes: s.Nodes, Groups: s.Groups, Systems: s.Systems})
	}
	require.Equal(t, want, sites)
}

func TestPlaces_OneGroupHasEveryKeyInOnePlace(t *testing.T) {
	l := newLayout(t, []fleet.Group{group("", "h1", "h2", "h3")}, nil)
	require.Len(t, l.Places("k"), 1)
	requireSites(t, l, parts.Site{
		Nodes: []string{"h1", "h2", "h3"}, Groups: []string{"", "", ""},
		Systems: [][]quorum.Nodes{{0b111}},
	})
}

func TestPlaces_AKeyIsInTheGroupOfItsName(t *testing.T) {
	groups := []fleet.Group{group("a", "h1"), group("b", "h2"), group("c", "h3")}
	l := newLayout(t, groups, nil)
	require.Len(t, l.Sites, 3)
	other := newLayout(t, []fleet.Group{groups[2], groups[0], groups[1]}, nil)
	for i := range 1000 {
		key := fmt.Sprint("k", i)
		require.Equal(t, l.Group(key), other.Group(key), "the order of the groups does not matter")
		place := l.Places(key)
		require.Len(t, place, 1)
		require.Equal(t, l.Group(key), l.Sites[place[0].Site].Groups[0])
		tagged := l.Group("cart{" + key + "}:x")
		require.Equal(t, l.Group(key), tagged, "what is in braces counts")
	}
	require.Equal(t, l.Group("x{}y"), l.Group("x{}y"))
}

// The goal: 1/4 of the keys move when a fourth group comes, all of them to it, and each group has
// its share.
func TestPlaces_AFurtherGroupTakesOnlyItsShare(t *testing.T) {
	groups := []fleet.Group{group("a", "1"), group("b", "2"), group("c", "3"), group("d", "4")}
	three, four := newLayout(t, groups[:3], nil), newLayout(t, groups, nil)
	const keys = 100_000
	moved, counts := 0, map[string]int{}
	for i := range keys {
		key := fmt.Sprint("sku:", i)
		before, after := three.Group(key), four.Group(key)
		counts[after]++
		if before != after {
			moved++
			require.Equal(t, "d", after, "no key moves between the groups that were there")
		}
	}
	require.InDelta(t, keys/4, moved, 0.02*keys)
	for name, n := range counts {
		require.InDelta(t, keys/4, n, 0.02*keys, name)
	}
}

func TestPlaces_WhileNodesAreReplacedAKeyNeedsBothQuorums(t *testing.T) {
	l := newLayout(t, []fleet.Group{group("a", "h1", "h2", "h3")},
		[]fleet.Group{group("a", "h1", "h4", "h5")})
	require.Len(t, l.Places("k"), 1)
	requireSites(t, l, parts.Site{ // a node that stays is there once
		Nodes:   []string{"h1", "h2", "h3", "h4", "h5"},
		Groups:  []string{"a", "a", "a", "a", "a"},
		Systems: [][]quorum.Nodes{{0b00111, 0b11001}},
	})
}

func TestPlaces_WhileAGroupIsAddedOnlyItsKeysAreInTwoPlaces(t *testing.T) {
	a, b, c := group("a", "h1", "h2", "h3"), group("b", "h4"), group("c", "h5", "h6")
	l := newLayout(t, []fleet.Group{a, b}, []fleet.Group{a, b, c})
	require.Len(t, l.Sites, 3)
	after := newLayout(t, []fleet.Group{a, b, c}, nil)
	twice := 0
	for i := range 3000 {
		key := fmt.Sprint("k", i)
		places := l.Places(key)
		if after.Group(key) != "c" {
			require.Len(t, places, 1)
			continue
		}
		twice++
		require.Len(t, places, 2)
		require.Equal(t, 2, places[1].Site)
		require.Equal(t, l.Group(key), l.Sites[places[0].Site].Groups[0])
	}
	require.InDelta(t, 1000, twice, 6*math.Sqrt(3000*2./9))
}

func TestPlaces_GroupsThatShareNodesAreInOneSite(t *testing.T) {
	l := newLayout(t, []fleet.Group{group("a", "1", "2"), group("b", "3", "4")},
		[]fleet.Group{group("a", "2", "3"), group("c", "5")})
	require.Len(t, l.Sites, 2)
	require.Equal(t, []string{"1", "2", "3", "4"}, l.Sites[0].Nodes)
	require.ElementsMatch(t, [][]quorum.Nodes{
		{0b0011, 0b0110}, {0b0011}, {0b1100, 0b0110}, {0b1100},
	}, l.Sites[0].Systems)
	for i := range 100 {
		places := l.Places(fmt.Sprint("k", i))
		for j, p := range places {
			require.Equal(t, j, p.Site, "no key is twice on one node")
		}
	}
}

func TestNew_RefusesMoreNodesThanASiteTakes(t *testing.T) {
	var many, others []string
	for i := range 40 {
		many, others = append(many, fmt.Sprint("a", i)), append(others, fmt.Sprint("b", i))
	}
	others[0] = many[0]
	present, next := []fleet.Group{group("a", many...)}, []fleet.Group{group("a", others...)}
	_, err := parts.NewLayout(present, next)
	require.ErrorContains(t, err, "79 different nodes")
	_, err = parts.NewLayout(present, nil)
	require.NoError(t, err)
}
