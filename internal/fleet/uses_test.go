package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func groups(nodes ...string) []Group { return []Group{{Nodes: nodes}} }

// used is an entry of these layouts that was just renewed.
func used(runIDs map[string]string, layouts ...[]Group) *Entry {
	return &Entry{
		WaitMillis: 1000, MaxTTLMillis: 1000, Layouts: layouts, RunIDs: runIDs,
		Until: time.Now().Add(time.Second + outlasts),
	}
}

// The goal: two layouts are foreign only if that is certain.
func TestForeign_OnlyIfCertain(t *testing.T) {
	abc := groups("a", "b", "c")
	ids := map[string]string{"a": "1", "b": "2", "c": "3"}
	named := func(name string, nodes ...string) Group {
		return Group{Name: name, Nodes: nodes}
	}
	one := [][]Group{abc}
	a1, z3 := map[string]string{"a": "1"}, map[string]string{"z": "3"}
	z4 := map[string]string{"z": "4"}
	xyz := map[string]string{"x": "3", "y": "1", "z": "2"}
	for name, test := range map[string]struct {
		own     [][]Group
		e       *Entry
		server  string
		foreign bool
	}{
		"same names":           {one, used(nil, abc), "", false},
		"another number":       {one, used(nil, groups("a", "b")), "", true},
		"names unknown":        {one, used(nil, groups("x", "y", "z")), "", false},
		"one known, different": {one, used(z4, groups("a", "b", "z")), "", true},
		"one known, the same":  {one, used(z3, groups("a", "b", "z")), "", false},
		"two names":            {one, used(xyz, groups("x", "y", "z")), "", false},
		"own unknown": {
			[][]Group{groups("a", "b", "d")}, used(ids, abc), "", false,
		},
		"one layout alike": {
			[][]Group{groups("d"), abc}, used(ids, groups("e"), abc), "", false,
		},
		"both with Next": {
			[][]Group{groups("a"), groups("b")}, used(ids, groups("c"), abc), "", true,
		},
		"groups": {
			[][]Group{{named("g", "a"), named("h", "b")}},
			used(ids, []Group{named("g", "a"), named("h", "b")}), "", false,
		},
		"nodes in other groups": {
			[][]Group{{named("g", "a"), named("h", "b")}},
			used(ids, []Group{named("g", "b"), named("h", "a")}), "", true,
		},
		"groups of other names": {
			[][]Group{{named("g", "a"), named("h", "b")}},
			used(ids, []Group{named("g", "a"), named("i", "b")}), "", true,
		},
		"too long to be kept": {one, used(ids), "", false},
		"of this server":      {one, used(a1, groups("a")), "1", true},
		"of a former server":  {one, used(a1, groups("a")), "9", false},
	} {
		foreign := isForeign(test.own, knowing(ids), test.e, test.server)
		require.Equal(t, test.foreign, foreign, name)
	}
	e := used(nil, groups("a"))
	e.Until = e.Until.Add(time.Second - inUse)
	require.True(t, isForeign([][]Group{abc}, knowing(ids), e, ""))
	e.Until = e.Until.Add(-2 * time.Second)
	require.False(t, isForeign([][]Group{abc}, knowing(ids), e, ""), "nobody renews it")
}

// knowing returns servers with these run_ids, which they have always had.
func knowing(runIDs map[string]string) (all []*Server) {
	for node, id := range runIDs {
		all = append(all, &Server{Node: node, RunID: id})
	}
	return all
}

// The goal: a run_id that a node has got since an entry was renewed says nothing about that entry.
func TestForeign_NotByWhatHasChangedSince(t *testing.T) {
	own := [][]Group{groups("a", "b")}
	servers := []*Server{{Node: "a", RunID: "1"}, {Node: "b", RunID: "2"}}
	e := used(map[string]string{"x": "1", "y": "9"}, groups("x", "y"))
	require.True(t, isForeign(own, servers, e, "1"))
	servers[1].Since = e.Renewed().Add(time.Millisecond)
	require.False(t, isForeign(own, servers, e, "1"))
}

// The goal: clients of one configuration that know different run_ids are one use of it.
func TestUses_GathersWhatServersShow(t *testing.T) {
	e := *used(nil, groups("a", "b"))
	later := e
	later.Until, later.Owner = e.Until.Add(time.Second), "later"
	other := e
	other.MaxTTLMillis--
	all, own := Uses([][]Group{groups("a", "b")}, []*Server{
		{Node: "a", Entries: []Entry{e}}, {Node: "b", Entries: []Entry{other, later}},
	})
	require.Equal(t, "a,b", own)
	require.Equal(t, []*Use{
		{Entry: later, Text: "a,b", Nodes: []string{"a", "b"}},
		{Entry: other, Text: "a,b", Nodes: []string{"b"}},
	}, all)
}

// The goal: whatever names servers have and whoever knows which run_ids, two lists of the same
// servers are never different, and two of which all is known are the same only then.
func TestMayBeSame_IsRightWhateverIsKnown(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		size, servers := 1+rng.IntN(4), 5
		draw := func() (names []string, of []int, ids map[string]string) {
			ids = make(map[string]string)
			for _, s := range rng.Perm(servers)[:size] {
				name := fmt.Sprint("s", s, "-", rng.IntN(2))
				names, of = append(names, name), append(of, s)
				if rng.IntN(3) > 0 {
					ids[name] = fmt.Sprint(s)
				}
			}
			slices.Sort(of)
			return names, of, ids
		}
		a, aOf, aIDs := draw()
		b, bOf, bIDs := draw()
		may, same := mayBeSame(a, b, aIDs, bIDs), slices.Equal(aOf, bOf)
		require.Equal(t, may, mayBeSame(b, a, bIDs, aIDs))
		if same {
			require.True(t, may, "%v %v %v %v", a, b, aIDs, bIDs)
		}
		if len(aIDs) == size && len(bIDs) == size {
			require.Equal(t, same, may, "%v %v", a, b)
		}
	}
}
