package restartguard

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/stretchr/testify/require"
)

// The goal: what a node has is read as the script writes it, and nothing else of it counts.
func TestGenerations_AreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]struct {
		own    generation
		others map[string]int64
	}{
		"":                       {others: map[string]int64{}},
		"-=0 a=3":                {others: map[string]int64{"a": 3}},
		"x=7":                    {generation{"x", 7}, map[string]int64{}},
		"x=7 a=3 b=0":            {generation{"x", 7}, map[string]int64{"a": 3, "b": 0}},
		"x=7 a=-3 b=z c 1=":      {generation{"x", 7}, map[string]int64{}},
		"x=12345678901234 a=1":   {others: map[string]int64{"a": 1}},
		"lost:by a careless man": {others: map[string]int64{}},
	} {
		own, others := parseGenerations(text)
		require.Equal(t, want.own, own, text)
		require.Equal(t, want.others, others, text)
	}
	_, others := parseGenerations("x=1" + strings.Repeat(" y=1", 5) + func() (many string) {
		for i := range 1000 {
			many += fmt.Sprint(" a", i, "=1")
		}
		return many
	}())
	require.Less(t, len(others), maxGenerations)
}

// oneSet returns the set of all of so many nodes.
func oneSet(nodes int) []quorum.Nodes { return []quorum.Nodes{quorum.First(nodes)} }

// The goal: a node has lost something if a higher number of its id is known: from itself, or from
// any other node. An id that another one took the place of has ended.
func TestGenerations_FallWhenANodeLosesMemory(t *testing.T) {
	g := newGenerations(3, oneSet(3), new(sync.Mutex))
	require.False(t, g.isOutdated(generation{}), "no id")
	require.False(t, g.isOutdated(generation{"a", 1}), "nothing is known")
	g.confirm(0, "r1", generation{"a", 5})
	require.True(t, g.isOutdated(generation{"a", 4}))
	require.False(t, g.isOutdated(generation{"a", 5}))
	g.confirm(0, "r1", generation{"a", 4})
	require.True(t, g.isOutdated(generation{"a", 4}), "a number that falls is not confirmed")
	g.hear(1, map[string]int64{"a": 7}, time.Now())
	require.True(t, g.isOutdated(generation{"a", 6}))
	require.False(t, g.isOutdated(generation{"b", 1}))
	g.confirm(0, "r1", generation{"b", 1})
	require.True(t, g.isOutdated(generation{"a", 100}))
	require.Equal(t, []generation{{"b", 1}, {"a", endedGeneration}}, g.except(1))
	require.Empty(t, g.except(0))

	g.confirm(0, "r2", generation{"c", 1})
	require.False(t, g.isOutdated(generation{"b", 1}), "the other server may still be there, under "+
		"another name")
	g.end(0, "b")
	require.True(t, g.isOutdated(generation{"b", 1}), "unless this one had it")
}

// The goal: a node that restarted is vouched for by as many others as leave no quorum without one
// of them, which were asked since, and one of which keeps its generation.
func TestGenerations_AreVouchedForByEnoughOthers(t *testing.T) {
	now := time.Now()
	has, lacks := map[string]int64{"a": 3}, map[string]int64{}
	for _, test := range []struct {
		nodes  int
		others []map[string]int64 // of nodes 1, 2 ...; nil was not asked since
		strict bool
		want   bool
	}{
		{nodes: 1, want: true},
		{nodes: 1, strict: true},
		{2, []map[string]int64{has}, false, true},
		{2, []map[string]int64{lacks}, false, false},
		{3, []map[string]int64{has, lacks}, true, true},
		{3, []map[string]int64{has, nil}, false, false},
		{3, []map[string]int64{lacks, lacks}, false, false},
		{5, []map[string]int64{has, lacks, lacks, nil}, false, true},
		{5, []map[string]int64{has, has, nil, nil}, false, false},
	} {
		g := newGenerations(test.nodes, oneSet(test.nodes), new(sync.Mutex))
		for i, others := range test.others {
			g.hear(i+1, has, now)
			if others != nil {
				g.hear(i+1, others, now.Add(1))
			}
		}
		require.Equal(t, test.want, g.vouch(0, generation{"a", 3}, now, test.strict), "%+v", test)
	}
	g := newGenerations(3, oneSet(3), new(sync.Mutex))
	g.hear(1, has, now.Add(1))
	g.hearRecovering(2, has, now.Add(1))
	require.False(t, g.vouch(0, generation{"a", 3}, now, false),
		"its disk may have been put back as well")
	g.hear(2, has, now.Add(recoveringFor))
	require.False(t, g.vouch(0, generation{"a", 3}, now, false))
	g.hear(2, has, now.Add(recoveringFor+2))
	require.True(t, g.vouch(0, generation{"a", 3}, now, false))
	g.hearRecovering(1, has, now.Add(1))
	g.hearRecovering(2, has, now.Add(1))
	require.True(t, g.vouch(0, generation{"a", 3}, now, false), "all have restarted")

	g = newGenerations(1, oneSet(1), new(sync.Mutex))
	g.confirm(0, "r1", generation{"a", 3})
	require.True(t, g.vouch(0, generation{"a", 3}, now, true), "this client knows it")
	require.False(t, g.vouch(0, generation{"b", 3}, now, true))
}

// The goal: while clients move from one set of nodes to another, a lease may have a quorum of
// either. So a node that is in both is vouched for by enough nodes of each, and one that is in one
// set by enough of that one. A node that is in no set has no witnesses.
func TestGenerations_AreVouchedForInEachSet(t *testing.T) {
	type kept map[int]map[string]int64
	has, lacks := map[string]int64{"a": 3}, map[string]int64{}
	now := time.Now()
	apart, overlap := []quorum.Nodes{0b000111, 0b111000}, []quorum.Nodes{0b000111, 0b111001}
	single := []quorum.Nodes{0b000001, 0b111001}
	for i, test := range []struct {
		sets   []quorum.Nodes
		node   int
		others kept // by node; those that were asked since
		strict bool
		want   bool
	}{
		{apart, 0, kept{1: has, 2: lacks}, true, true},
		{apart, 0, kept{3: has, 4: has, 5: has}, true, false},
		{apart, 0, kept{1: has, 3: has, 4: has}, true, false},
		{apart, 4, kept{3: has, 5: has}, true, true},
		{overlap, 0, kept{1: has, 2: has}, true, false},
		{overlap, 0, kept{1: has, 2: has, 3: has}, true, false},
		{overlap, 0, kept{1: has, 2: has, 3: has, 4: lacks}, true, true},
		{overlap, 0, kept{1: has, 2: has, 3: has, 4: has, 5: has}, true, true},
		{overlap, 0, kept{1: lacks, 2: lacks, 3: has, 4: has, 5: has}, true, false},
		{single, 0, kept{3: has, 4: has, 5: has}, false, true},
		{single, 0, kept{3: has, 4: has, 5: has}, true, false},
		{single, 0, kept{3: has}, false, false},
		{[]quorum.Nodes{0b000111}, 5, kept{0: has, 1: has, 2: has}, false, false},
	} {
		g := newGenerations(6, test.sets, new(sync.Mutex))
		for node, others := range test.others {
			g.hear(node, others, now.Add(1))
		}
		require.Equal(t, test.want, g.vouch(test.node, generation{"a", 3}, now, test.strict), i)
	}
	g := newGenerations(6, overlap, new(sync.Mutex))
	for i := 1; i <= 5; i++ {
		g.hearRecovering(i, has, now.Add(1))
	}
	require.True(t, g.vouch(0, generation{"a", 3}, now, false), "all have restarted")
	g.hear(2, has, now.Add(2))
	require.False(t, g.vouch(0, generation{"a", 3}, now.Add(1), false))
}
