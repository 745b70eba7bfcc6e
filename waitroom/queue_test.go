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
func enter(t *testing.T, queue *Queue, s string) *guest {
	t.Helper()
	g := &guest{keys: keys(s)}
	g.Wake = func() { g.woken++ }
	require.True(t, queue.Enter(&g.Waiter, g.keys, unlimited))
	return g
}

// firsts says who is first, as a string of ones and zeros.
func firsts(queue *Queue, guests ...*guest) string {
	s := ""
	for _, g := range guests {
		if queue.First(&g.Waiter) {
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

func leave(queue *Queue, g *guest, until time.Time) any { return queue.Leave(&g.Waiter, until) }

// The goal: those who wait for one key become first in the order in which they came, one at a time,
// and only the next one is woken.
func TestQueue_AKeyIsWaitedForInOrder(t *testing.T) {
	var queue Queue
	a, b, c, other := enter(t, &queue, "k"), enter(t, &queue, "k"), enter(t, &queue, "k"),
		enter(t, &queue, "x")
	require.Equal(t, "1001", firsts(&queue, a, b, c, other))
	require.Equal(t, "0000", wakes(a, b, c, other))
	leave(&queue, a, time.Time{})
	require.Equal(t, "0101", firsts(&queue, a, b, c, other))
	require.Equal(t, "0100", wakes(a, b, c, other))
	leave(&queue, b, time.Time{})
	require.Equal(t, "0011", firsts(&queue, a, b, c, other))
	require.Equal(t, "0010", wakes(a, b, c, other))
	leave(&queue, c, time.Time{})
	leave(&queue, other, time.Time{})
	require.Equal(t, "0000", wakes(a, b, c, other))
	require.Zero(t, queue.Waiting())
}

// The goal: sets that overlap in a circle do not block each other for ever, and become first in the
// order in which they came.
func TestQueue_OverlappingSetsAllBecomeFirst(t *testing.T) {
	for _, sets := range [][]string{
		{"12", "23", "31"},
		{"12", "23", "31", "12", "23", "31"},
		{"123", "3", "21", "2", "13", "321"},
	} {
		var queue Queue
		var all []*guest
		for _, s := range sets {
			all = append(all, enter(t, &queue, s))
		}
		for i, g := range all {
			require.True(t, queue.First(&g.Waiter), "%v: %d", sets, i)
			leave(&queue, g, time.Time{})
		}
		for i, g := range all {
			require.Equal(t, min(i, 1), g.woken, "%v: %d: everybody but the one that came into "+
				"an empty room is woken once", sets, i)
		}
		require.Empty(t, queue.heads)
	}
}

// The goal: a set becomes first when the last of its keys is free of others, not before.
func TestQueue_ASetIsFirstAtAllOfItsKeys(t *testing.T) {
	var queue Queue
	a, b, c, set := enter(t, &queue, "a"), enter(t, &queue, "b"), enter(t, &queue, "c"),
		enter(t, &queue, "abc")
	for i, g := range []*guest{b, c, a} {
		require.Equal(t, "00", firsts(&queue, set)+wakes(set), "%d", i)
		leave(&queue, g, time.Time{})
	}
	require.Equal(t, "11", firsts(&queue, set)+wakes(set))
	behind := enter(t, &queue, "bc")
	leave(&queue, set, time.Time{})
	require.Equal(t, "11", firsts(&queue, behind)+wakes(behind),
		"of two keys at once, and woken once")
}

// The goal: a waiter may give up at any position and in any order, and the others keep their
// order, and who is woken is exactly who became first by it.
func TestQueue_GivingUpInEveryPosition(t *testing.T) {
	for _, sets := range [][]string{{"k", "k", "k", "k"}, {"ab", "bc", "ca", "ab"}, {
		"a", "ab", "b",
		"abc",
	}} {
		permute([]int{0, 1, 2, 3}, func(order []int) {
			var queue Queue
			var all []*guest
			for _, s := range sets {
				all = append(all, enter(t, &queue, s))
			}
			rest := slices.Clone(all)
			for _, i := range order {
				before := dumbFirsts(rest)
				rest = slices.DeleteFunc(rest, func(g *guest) bool { return g == all[i] })
				leave(&queue, all[i], time.Time{})
				for j, g := range all {
					first := slices.Contains(dumbFirsts(rest), g)
					became := first && !slices.Contains(before, g)
					require.Equal(t, first, queue.First(&g.Waiter), "%v, %v: %d after %d", sets,
						order, j, i)
					require.Equal(t, became, g.woken == 1, "%v, %v: %d after %d", sets, order, j, i)
					g.woken = 0
				}
			}
			require.Empty(t, queue.heads)
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

// dumbFirsts returns the waiters that are first, of those in this order: each that shares no key
// with one before it.
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
func TestQueue_LeavingTwiceAndEnteringAgain(t *testing.T) {
	var queue Queue
	a, b, c := enter(t, &queue, "k"), enter(t, &queue, "k"), enter(t, &queue, "k")
	leave(&queue, a, at(9))
	leave(&queue, a, at(9))
	leave(&queue, new(guest), at(9))
	require.Equal(t, "010", firsts(&queue, a, b, c))
	require.Equal(t, "010", wakes(a, b, c))
	require.Equal(t, 2, queue.Waiting())
	require.True(t, queue.Enter(&a.Waiter, keys("jk"), unlimited))
	leave(&queue, b, at(9))
	require.Equal(t, "001", firsts(&queue, a, b, c))
	leave(&queue, c, at(8))
	require.Equal(t, "100", firsts(&queue, a, b, c))
	require.Equal(t, at(8), queue.HeldUntil(&a.Waiter))
	leave(&queue, a, time.Time{})
	require.True(t, queue.Enter(&a.Waiter, keys("k"), unlimited))
	require.True(t, queue.HeldUntil(&a.Waiter).IsZero(),
		"what it was told before does not count")
}

// The goal: Wake is called when the queue can be used again, and what it sees is settled.
func TestQueue_WakeMayUseIt(t *testing.T) {
	var queue Queue
	a, b, c := enter(t, &queue, "kx"), enter(t, &queue, "k"), enter(t, &queue, "x")
	seen := 0
	for _, g := range []*guest{b, c} {
		g.Wake = func() {
			seen++
			require.True(t, queue.First(&b.Waiter) && queue.First(&c.Waiter))
			queue.NotifyFree(nil, time.Time{})
		}
	}
	leave(&queue, a, time.Time{})
	queue.NotifyFree(keys("kx"), time.Time{})
	queue.Offer(keys("k"), 1)
	require.Equal(t, 5, seen)
}

// The goal: a waiter that becomes first learns until when the keys are held: from the one before
// it, or the latest of several; zero from the last one means a try.
func TestHeldUntil_IsWhatTheOnesBeforeSaid(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, last   time.Time // what those before it say, in this order
		want          time.Time
		notifyBetween string
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
			var queue Queue
			a, b, set, behind := enter(t, &queue, "a"), enter(t, &queue, "b"), enter(t, &queue,
				"ab"), enter(t, &queue, "b")
			require.True(t, queue.HeldUntil(&a.Waiter).IsZero())
			leave(&queue, a, c.first)
			queue.NotifyFree(keys(c.notifyBetween), time.Time{})
			require.Zero(t, set.woken, "it is not first yet")
			leave(&queue, b, c.last)
			require.Equal(t, 1, set.woken)
			require.Equal(t, c.want, queue.HeldUntil(&set.Waiter))
			leave(&queue, set, at(7))
			require.True(t, queue.HeldUntil(&set.Waiter).IsZero())
			require.Equal(t, at(7), queue.HeldUntil(&behind.Waiter))
		})
	}
}

// The goal: a waiter that gives up in the middle of a queue changes no HeldUntil.
func TestHeldUntil_GivingUpInTheMiddleChangesNothing(t *testing.T) {
	var queue Queue
	a, b, c, d := enter(t, &queue, "k"), enter(t, &queue, "k"), enter(t, &queue, "k"),
		enter(t, &queue, "k")
	leave(&queue, a, at(5))
	leave(&queue, c, at(9))
	leave(&queue, d, time.Time{})
	require.Equal(t, at(5), queue.HeldUntil(&b.Waiter))
	require.Equal(t, 1, b.woken)
}

// The goal: NotifyFree clears the HeldUntil of the waiters that are first for one of the keys and
// wakes them, and nobody else.
func TestNotifyFree_ClearsHeldUntilAndWakes(t *testing.T) {
	var queue Queue
	before := enter(t, &queue, "abcd")
	ab, c, d, last := enter(t, &queue, "ab"), enter(t, &queue, "c"), enter(t, &queue, "d"),
		enter(t, &queue, "ac")
	leave(&queue, before, at(9))
	require.Equal(t, "1110", wakes(ab, c, d, last))
	queue.NotifyFree(keys("abcx"), time.Time{})
	require.Equal(t, "1100", wakes(ab, c, d, last))
	for _, g := range []*guest{ab, c} {
		require.True(t, queue.HeldUntil(&g.Waiter).IsZero())
	}
	require.Equal(t, at(9), queue.HeldUntil(&d.Waiter))
	new(Queue).NotifyFree(keys("a"), time.Time{})
}

// The goal: an offer goes to the waiter that is first and waits for exactly this set, in any order
// of its keys are named, and to nobody else.
func TestOffer_IsForExactlyOneSet(t *testing.T) {
	var queue Queue
	require.False(t, queue.Offer(keys("a"), 1), "nobody waits")
	set, a, c := enter(t, &queue, "abd"), enter(t, &queue, "a"), enter(t, &queue, "c")
	for _, s := range []string{"", "a", "b", "ab", "abc", "abx", "xab", "abcd", "cab", "x"} {
		require.False(t, queue.Offer(keys(s), 1), "%s", s)
	}
	require.Equal(t, "000", wakes(set, a, c))
	require.True(t, queue.Offer(keys("c"), "for c"))
	require.True(t, queue.Offer(keys("dab"), "for the set"))
	require.Equal(t, "101", wakes(set, a, c))
	require.False(t, queue.Offer(keys("abd"), 2), "it has one already")
	require.Nil(t, queue.Accept(&a.Waiter))
	require.Equal(t, "for the set", queue.Accept(&set.Waiter))
	require.Nil(t, queue.Accept(&set.Waiter), "once")
	require.Nil(t, leave(&queue, set, at(5)), "it was taken")
	require.Equal(t, at(5), queue.HeldUntil(&a.Waiter))
	require.True(t, queue.Offer(keys("a"), "for a"))
	require.Equal(t, "for a", queue.Accept(&a.Waiter))
}

// The goal: a waiter with another before it at one of its keys gets no offer.
func TestOffer_DoesNotOvertake(t *testing.T) {
	var queue Queue
	b, ab := enter(t, &queue, "b"), enter(t, &queue, "ab")
	require.False(t, queue.Offer(keys("ab"), 1))
	leave(&queue, b, time.Time{})
	require.True(t, queue.Offer(keys("ab"), 1))
	require.Equal(t, 1, queue.Accept(&ab.Waiter))
}

// The goal: an offer that was not accepted comes back from Leave, once; the waiter behind is woken,
// and not told that the keys are held, neither by this Leave nor by one before it; then it may be
// given the same.
func TestOffer_ThatIsNotAcceptedComesBack(t *testing.T) {
	var queue Queue
	a, x, next := enter(t, &queue, "a"), enter(t, &queue, "x"), enter(t, &queue, "ax")
	leave(&queue, x, at(20))
	require.True(t, queue.Offer(keys("a"), "offer"))
	require.Equal(t, "offer", leave(&queue, a, at(10)))
	require.Nil(t, leave(&queue, a, at(10)))
	require.Nil(t, queue.Accept(&a.Waiter))
	require.Equal(t, "11", firsts(&queue, next)+wakes(next))
	require.True(t, queue.HeldUntil(&next.Waiter).IsZero())
	require.True(t, queue.Offer(keys("xa"), "offer"))
	require.Equal(t, "offer", queue.Accept(&next.Waiter))

	require.True(t, queue.Enter(&a.Waiter, keys("z"), unlimited))
	require.Nil(t, queue.Accept(&a.Waiter), "of the last time")
}

// The goal: no more than limit wait, whatever the number of their keys. One that is refused changes
// nothing, and another may enter when one leaves.
func TestQueue_TheNumberOfWaitersIsBounded(t *testing.T) {
	var queue Queue
	var late guest
	require.False(t, queue.Enter(&late.Waiter, keys("k"), 0))
	a := enter(t, &queue, "abc")
	enter(t, &queue, "abc")
	for _, s := range []string{"k", "ak"} {
		require.False(t, queue.Enter(&late.Waiter, keys(s), 2))
		require.False(t, queue.Enter(&late.Waiter, keys(s), 1))
		require.False(t, queue.First(&late.Waiter))
		require.False(t, queue.HasWaiters("k"))
		require.Nil(t, queue.Leave(&late.Waiter, time.Time{}))
	}
	require.Equal(t, 2, queue.Waiting())
	leave(&queue, a, time.Time{})
	require.True(t, queue.Enter(&late.Waiter, keys("k"), 2))
	require.True(t, queue.First(&late.Waiter))
	require.True(t, queue.HasWaiters("k"))
	require.False(t, queue.HasWaiters("x"))
}

// The goal: a queue vanishes with its last waiter, and after very many the map is made again,
// also while a few go on waiting; who has left keeps nobody else in memory.
func TestQueue_KeysWithoutWaitersTakeNoMemory(t *testing.T) {
	for _, staying := range []int{0, 1, 10} {
		t.Run(fmt.Sprint(staying, " stay"), func(t *testing.T) {
			var queue Queue
			var stay, all []*guest
			for i := range staying {
				stay = append(stay, enter(t, &queue, string(rune('a'+i))))
			}
			for i := range 20 * minPeak {
				g := &guest{keys: []string{strconv.Itoa(i), "and " + strconv.Itoa(i/2)}}
				g.keys = g.keys[:1+i%2] // the memory of a single key is the waiter's own
				g.Wake = func() {}
				require.True(t, queue.Enter(&g.Waiter, g.keys, unlimited))
				all = append(all, g)
			}
			require.Len(t, queue.heads, 30*minPeak+staying) // each second one has a further key
			for _, g := range all {
				leave(&queue, g, time.Time{})
				require.Nil(t, g.entries)
				require.Zero(t, g.one)
			}
			require.Len(t, queue.heads, staying)
			require.Less(t, queue.peak, minPeak, "the map is the one that was large")
			for _, g := range stay {
				require.True(t, queue.First(&g.Waiter))
				leave(&queue, g, time.Time{})
			}
			require.Empty(t, queue.heads)
			require.False(t, queue.HasWaiters("a"))
		})
	}
}

// The goal: waiting for a single key costs no memory beyond the waiter and the map's entry, and
// waiting for several one slice.
func TestQueue_WaitingIsCheap(t *testing.T) {
	var queue Queue
	enter(t, &queue, "abc")
	var w, behind Waiter
	w.Wake = func() {}
	behind.Wake = w.Wake
	for _, c := range []struct {
		keys string
		want int
	}{{"a", 0}, {"z", 0}, {"xyz", 2}} {
		list := keys(c.keys)
		require.Equal(t, c.want, int(testing.AllocsPerRun(100, func() {
			queue.Enter(&w, list, unlimited)
			queue.Enter(&behind, list, unlimited)
			queue.NotifyFree(list, time.Time{})
			queue.Offer(list, nil)
			queue.Leave(&w, time.Time{})
			queue.Leave(&behind, time.Time{})
		})), c.keys)
	}
}

// The goal: who has somebody behind it knows.
func TestHasSuccessor_ReportsWaitersBehind(t *testing.T) {
	var queue Queue
	first, second := &Waiter{Wake: func() {}}, &Waiter{Wake: func() {}}
	require.False(t, queue.HasSuccessor(first), "it does not wait")
	require.True(t, queue.Enter(first, []string{"k"}, 10))
	require.False(t, queue.HasSuccessor(first))
	require.True(t, queue.Enter(second, []string{"k"}, 10))
	require.True(t, queue.HasSuccessor(first))
	require.False(t, queue.HasSuccessor(second))
	queue.Leave(first, time.Time{})
	require.False(t, queue.HasSuccessor(second))
}
