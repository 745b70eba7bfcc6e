package waitroom

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const unlimited = 1 << 30

// guest is a waiter that counts how often it was woken.
type guest struct {
	Waiter
	keys  []string
	woken int
}

// keys are made of a string: each letter is one.
func keys(s string) []string {
	var list []string
	for _, r := range s {
		list = append(list, string(r))
	}
	return list
}

// at is a moment to tell moments apart by.
func at(seconds int) time.Time { return time.Unix(int64(seconds), 0) }

// enter lets a guest wait for keys.
func enter(t *testing.T, table *Table, s string) *guest {
	t.Helper()
	g := &guest{keys: keys(s)}
	g.Wake = func() { g.woken++ }
	require.True(t, table.Enter(&g.Waiter, g.keys, unlimited))
	return g
}

// firsts says who is first, as a string of ones and zeros.
func firsts(table *Table, guests ...*guest) string {
	s := ""
	for _, g := range guests {
		if table.First(&g.Waiter) {
			s += "1"
		} else {
			s += "0"
		}
	}
	return s
}

// wakes says how often each was woken since it was asked last.
func wakes(guests ...*guest) string {
	s := ""
	for _, g := range guests {
		s += strconv.Itoa(g.woken)
		g.woken = 0
	}
	return s
}

func leave(table *Table, g *guest, until time.Time) any { return table.Leave(&g.Waiter, until) }

// The goal: those who wait for one key become first in the order in which they came, one at a time,
// and only the next one is woken.
func TestAKeyIsWaitedForInOrder(t *testing.T) {
	var table Table
	a, b, c, other := enter(t, &table, "k"), enter(t, &table, "k"), enter(t, &table, "k"),
		enter(t, &table, "x")
	require.Equal(t, "1001", firsts(&table, a, b, c, other))
	require.Equal(t, "0000", wakes(a, b, c, other))
	leave(&table, a, time.Time{})
	require.Equal(t, "0101", firsts(&table, a, b, c, other))
	require.Equal(t, "0100", wakes(a, b, c, other))
	leave(&table, b, time.Time{})
	require.Equal(t, "0011", firsts(&table, a, b, c, other))
	require.Equal(t, "0010", wakes(a, b, c, other))
	leave(&table, c, time.Time{})
	leave(&table, other, time.Time{})
	require.Equal(t, "0000", wakes(a, b, c, other))
	require.Zero(t, table.Waiting())
}

// The goal: sets that overlap in a circle do not block each other for ever, and become first in the
// order in which they came.
func TestOverlappingSetsAllBecomeFirst(t *testing.T) {
	for _, sets := range [][]string{
		{"12", "23", "31"},
		{"12", "23", "31", "12", "23", "31"},
		{"123", "3", "21", "2", "13", "321"},
	} {
		var table Table
		var all []*guest
		for _, s := range sets {
			all = append(all, enter(t, &table, s))
		}
		for i, g := range all {
			require.True(t, table.First(&g.Waiter), "%v: %d", sets, i)
			leave(&table, g, time.Time{})
		}
		for i, g := range all {
			require.Equal(t, min(i, 1), g.woken, "%v: %d: everybody but the one that came into "+
				"an empty room is woken once", sets, i)
		}
		require.Empty(t, table.rooms)
	}
}

// The goal: a set becomes first when the last of its keys is free of others, not before.
func TestASetIsFirstAtAllOfItsKeys(t *testing.T) {
	var table Table
	a, b, c, set := enter(t, &table, "a"), enter(t, &table, "b"), enter(t, &table, "c"),
		enter(t, &table, "abc")
	for i, g := range []*guest{b, c, a} {
		require.Equal(t, "00", firsts(&table, set)+wakes(set), "%d", i)
		leave(&table, g, time.Time{})
	}
	require.Equal(t, "11", firsts(&table, set)+wakes(set))
	behind := enter(t, &table, "bc")
	leave(&table, set, time.Time{})
	require.Equal(t, "11", firsts(&table, behind)+wakes(behind),
		"of two keys at once, and woken once")
}

// The goal: whoever gives up, at whatever position and in whatever order, the others keep their
// order, and who is woken is exactly who became first by it.
func TestGivingUpInEveryPosition(t *testing.T) {
	for _, sets := range [][]string{{"k", "k", "k", "k"}, {"ab", "bc", "ca", "ab"}, {
		"a", "ab", "b",
		"abc",
	}} {
		permute([]int{0, 1, 2, 3}, func(order []int) {
			var table Table
			var all []*guest
			for _, s := range sets {
				all = append(all, enter(t, &table, s))
			}
			rest := slices.Clone(all)
			for _, i := range order {
				before := dumbFirsts(rest)
				rest = slices.DeleteFunc(rest, func(g *guest) bool { return g == all[i] })
				leave(&table, all[i], time.Time{})
				for j, g := range all {
					first := slices.Contains(dumbFirsts(rest), g)
					became := first && !slices.Contains(before, g)
					require.Equal(t, first, table.First(&g.Waiter), "%v, %v: %d after %d", sets,
						order, j, i)
					require.Equal(t, became, g.woken == 1, "%v, %v: %d after %d", sets, order, j, i)
					g.woken = 0
				}
			}
			require.Empty(t, table.rooms)
		})
	}
}

func permute(list []int, do func([]int)) {
	var from func(i int)
	from = func(i int) {
		if i == len(list) {
			do(list)
			return
		}
		for j := i; j < len(list); j++ {
			list[i], list[j] = list[j], list[i]
			from(i + 1)
			list[i], list[j] = list[j], list[i]
		}
	}
	from(0)
}

// dumbFirsts says who is first among those who wait in this order: whoever shares no key with one
// before it.
func dumbFirsts(queue []*guest) (list []*guest) {
	taken := map[string]bool{}
	for _, g := range queue {
		free := true
		for _, k := range g.keys {
			free = free && !taken[k]
			taken[k] = true
		}
		if free {
			list = append(list, g)
		}
	}
	return list
}

// The goal: leaving twice, or without having entered, does nothing; who has left may enter again,
// behind the others.
func TestLeavingTwiceAndEnteringAgain(t *testing.T) {
	var table Table
	a, b, c := enter(t, &table, "k"), enter(t, &table, "k"), enter(t, &table, "k")
	leave(&table, a, at(9))
	leave(&table, a, at(9))
	leave(&table, new(guest), at(9))
	require.Equal(t, "010", firsts(&table, a, b, c))
	require.Equal(t, "010", wakes(a, b, c))
	require.Equal(t, 2, table.Waiting())
	require.True(t, table.Enter(&a.Waiter, keys("jk"), unlimited))
	leave(&table, b, at(9))
	require.Equal(t, "001", firsts(&table, a, b, c))
	leave(&table, c, at(8))
	require.Equal(t, "100", firsts(&table, a, b, c))
	require.Equal(t, at(8), table.Hint(&a.Waiter))
	leave(&table, a, time.Time{})
	require.True(t, table.Enter(&a.Waiter, keys("k"), unlimited))
	require.True(t, table.Hint(&a.Waiter).IsZero(), "what it was told the last time does not count")
}

// The goal: Wake is called when the table can be used again, and what it sees is settled.
func TestWakeMayUseTheTable(t *testing.T) {
	var table Table
	a, b, c := enter(t, &table, "kx"), enter(t, &table, "k"), enter(t, &table, "x")
	seen := 0
	for _, g := range []*guest{b, c} {
		g.Wake = func() {
			seen++
			require.True(t, table.First(&b.Waiter) && table.First(&c.Waiter))
			table.Nudge(nil, time.Time{})
		}
	}
	leave(&table, a, time.Time{})
	table.Nudge(keys("kx"), time.Time{})
	table.Give(keys("k"), 1)
	require.Equal(t, 5, seen)
}

// The goal: whoever becomes first is told until when the keys are held: by the one before it, or
// the latest of several; zero from the last one means a try.
func TestHints(t *testing.T) {
	for _, c := range []struct {
		name         string
		first, last  time.Time // what those before it say, in this order
		want         time.Time
		nudgeBetween string
	}{
		{"the later one is the last", at(1), at(2), at(2), ""},
		{"the later one is the first", at(2), at(1), at(2), ""},
		{"nothing known, then a time", time.Time{}, at(1), at(1), ""},
		{"a time, then nothing known", at(1), time.Time{}, time.Time{}, ""},
		{"nothing known at all", time.Time{}, time.Time{}, time.Time{}, ""},
		{"a release in between, then a time", at(2), at(1), at(1), "a"},
		{"a release of what it is not at the head of", at(2), at(1), at(2), "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var table Table
			a, b, set, behind := enter(t, &table, "a"), enter(t, &table, "b"), enter(t, &table,
				"ab"), enter(t, &table, "b")
			require.True(t, table.Hint(&a.Waiter).IsZero())
			leave(&table, a, c.first)
			table.Nudge(keys(c.nudgeBetween), time.Time{})
			require.Zero(t, set.woken, "it is not first yet")
			leave(&table, b, c.last)
			require.Equal(t, 1, set.woken)
			require.Equal(t, c.want, table.Hint(&set.Waiter))
			leave(&table, set, at(7))
			require.True(t, table.Hint(&set.Waiter).IsZero())
			require.Equal(t, at(7), table.Hint(&behind.Waiter))
		})
	}
}

// The goal: whoever gives up in the middle of a queue tells nobody anything.
func TestGivingUpInTheMiddleLeavesTheHint(t *testing.T) {
	var table Table
	a, b, c, d := enter(t, &table, "k"), enter(t, &table, "k"), enter(t, &table, "k"),
		enter(t, &table, "k")
	leave(&table, a, at(5))
	leave(&table, c, at(9))
	leave(&table, d, time.Time{})
	require.Equal(t, at(5), table.Hint(&b.Waiter))
	require.Equal(t, 1, b.woken)
}

// The goal: a nudge clears the hint of whoever is first for one of the keys and wakes it, and
// nobody else.
func TestANudgeClearsTheHintAndWakes(t *testing.T) {
	var table Table
	before := enter(t, &table, "abcd")
	ab, c, d, last := enter(t, &table, "ab"), enter(t, &table, "c"), enter(t, &table, "d"),
		enter(t, &table, "ac")
	leave(&table, before, at(9))
	require.Equal(t, "1110", wakes(ab, c, d, last))
	table.Nudge(keys("abcx"), time.Time{})
	require.Equal(t, "1100", wakes(ab, c, d, last))
	for _, g := range []*guest{ab, c} {
		require.True(t, table.Hint(&g.Waiter).IsZero())
	}
	require.Equal(t, at(9), table.Hint(&d.Waiter))
	new(Table).Nudge(keys("a"), time.Time{})
}

// The goal: a gift goes to whoever is first and waits for exactly this set, in whatever order its
// keys are named, and to nobody else.
func TestAGiftIsForExactlyOneSet(t *testing.T) {
	var table Table
	require.False(t, table.Give(keys("a"), 1), "nobody waits")
	set, a, c := enter(t, &table, "abd"), enter(t, &table, "a"), enter(t, &table, "c")
	for _, s := range []string{"", "a", "b", "ab", "abc", "abx", "xab", "abcd", "cab", "x"} {
		require.False(t, table.Give(keys(s), 1), "%s", s)
	}
	require.Equal(t, "000", wakes(set, a, c))
	require.True(t, table.Give(keys("c"), "for c"))
	require.True(t, table.Give(keys("dab"), "for the set"))
	require.Equal(t, "101", wakes(set, a, c))
	require.False(t, table.Give(keys("abd"), 2), "it has one already")
	require.Nil(t, table.Take(&a.Waiter))
	require.Equal(t, "for the set", table.Take(&set.Waiter))
	require.Nil(t, table.Take(&set.Waiter), "once")
	require.Nil(t, leave(&table, set, at(5)), "it was taken")
	require.Equal(t, at(5), table.Hint(&a.Waiter))
	require.True(t, table.Give(keys("a"), "for a"))
	require.Equal(t, "for a", table.Take(&a.Waiter))
}

// The goal: nobody gets a gift who has another before it at one of its keys.
func TestAGiftDoesNotOvertake(t *testing.T) {
	var table Table
	b, ab := enter(t, &table, "b"), enter(t, &table, "ab")
	require.False(t, table.Give(keys("ab"), 1))
	leave(&table, b, time.Time{})
	require.True(t, table.Give(keys("ab"), 1))
	require.Equal(t, 1, table.Take(&ab.Waiter))
}

// The goal: a gift that was not taken comes back from Leave, once; whoever is behind is woken, and
// not told that the keys are held, neither by this Leave nor by one before it; then it may be given
// the same.
func TestAGiftThatIsNotTakenComesBack(t *testing.T) {
	var table Table
	a, x, next := enter(t, &table, "a"), enter(t, &table, "x"), enter(t, &table, "ax")
	leave(&table, x, at(20))
	require.True(t, table.Give(keys("a"), "gift"))
	require.Equal(t, "gift", leave(&table, a, at(10)))
	require.Nil(t, leave(&table, a, at(10)))
	require.Nil(t, table.Take(&a.Waiter))
	require.Equal(t, "11", firsts(&table, next)+wakes(next))
	require.True(t, table.Hint(&next.Waiter).IsZero())
	require.True(t, table.Give(keys("xa"), "gift"))
	require.Equal(t, "gift", table.Take(&next.Waiter))

	require.True(t, table.Enter(&a.Waiter, keys("z"), unlimited))
	require.Nil(t, table.Take(&a.Waiter), "of the last time")
}

// The goal: no more than limit wait, whatever the number of their keys; who is refused changes
// nothing, and there is room again when one leaves.
func TestTheNumberOfWaitersIsBounded(t *testing.T) {
	var table Table
	var late guest
	require.False(t, table.Enter(&late.Waiter, keys("k"), 0))
	a := enter(t, &table, "abc")
	enter(t, &table, "abc")
	for _, s := range []string{"k", "ak"} {
		require.False(t, table.Enter(&late.Waiter, keys(s), 2))
		require.False(t, table.Enter(&late.Waiter, keys(s), 1))
		require.False(t, table.First(&late.Waiter))
		require.False(t, table.Waits("k"))
		require.Nil(t, table.Leave(&late.Waiter, time.Time{}))
	}
	require.Equal(t, 2, table.Waiting())
	leave(&table, a, time.Time{})
	require.True(t, table.Enter(&late.Waiter, keys("k"), 2))
	require.True(t, table.First(&late.Waiter))
	require.True(t, table.Waits("k"))
	require.False(t, table.Waits("x"))
}

// The goal: rooms vanish with the last who waits in them, and after very many the map is made anew,
// also while a few go on waiting; who has left keeps nobody else in memory.
func TestEmptyRoomsTakeNoMemory(t *testing.T) {
	for _, staying := range []int{0, 1, 10} {
		t.Run(fmt.Sprint(staying, " stay"), func(t *testing.T) {
			var table Table
			var stay, all []*guest
			for i := range staying {
				stay = append(stay, enter(t, &table, string(rune('a'+i))))
			}
			for i := range 20 * large {
				g := &guest{keys: []string{strconv.Itoa(i), "and " + strconv.Itoa(i/2)}}
				g.keys = g.keys[:1+i%2] // the memory of a single key is the waiter's own
				g.Wake = func() {}
				require.True(t, table.Enter(&g.Waiter, g.keys, unlimited))
				all = append(all, g)
			}
			require.Len(t, table.rooms, 30*large+staying) // each second one has a further key
			for _, g := range all {
				leave(&table, g, time.Time{})
				require.Nil(t, g.places)
				require.Zero(t, g.one)
			}
			require.Len(t, table.rooms, staying)
			require.Less(t, table.peak, large, "the map is the one that was large")
			for _, g := range stay {
				require.True(t, table.First(&g.Waiter))
				leave(&table, g, time.Time{})
			}
			require.Empty(t, table.rooms)
			require.False(t, table.Waits("a"))
		})
	}
}

// The goal: waiting for a single key costs no memory beyond the waiter and the map's entry, and
// waiting for several one slice.
func TestWaitingIsCheap(t *testing.T) {
	var table Table
	enter(t, &table, "abc")
	var w, behind Waiter
	w.Wake = func() {}
	behind.Wake = w.Wake
	for _, c := range []struct {
		keys string
		want int
	}{{"a", 0}, {"z", 0}, {"xyz", 2}} {
		list := keys(c.keys)
		require.Equal(t, c.want, int(testing.AllocsPerRun(100, func() {
			table.Enter(&w, list, unlimited)
			table.Enter(&behind, list, unlimited)
			table.Nudge(list, time.Time{})
			table.Give(list, nil)
			table.Leave(&w, time.Time{})
			table.Leave(&behind, time.Time{})
		})), c.keys)
	}
}

// The goal: who has somebody behind it knows.
func TestFollowedTellsOfWaitersBehind(t *testing.T) {
	var table Table
	first, second := &Waiter{Wake: func() {}}, &Waiter{Wake: func() {}}
	require.False(t, table.Followed(first), "it does not wait")
	require.True(t, table.Enter(first, []string{"k"}, 10))
	require.False(t, table.Followed(first))
	require.True(t, table.Enter(second, []string{"k"}, 10))
	require.True(t, table.Followed(first))
	require.False(t, table.Followed(second))
	table.Leave(first, time.Time{})
	require.False(t, table.Followed(second))
}
