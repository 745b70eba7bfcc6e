package keyqueue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const unlimited = 1 << 30

// guest is a call that counts the news of its Caller.
type guest struct {
	Call
	name               string
	keys               []string
	pair               *pair // nil: it is in no comparison
	runs, reservations int
	released           int
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

// enter lets a guest ask for keys.
func enter(t *testing.T, q *Queue, s string) *guest {
	t.Helper()
	g := &guest{name: s, keys: keys(s)}
	g.Caller = g
	_, ok := q.Enter(&g.Call, g.keys, unlimited)
	require.True(t, ok)
	return g
}

// holder is a guest that holds keys.
func holder(t *testing.T, q *Queue, s string) *guest {
	t.Helper()
	g := enter(t, q, s)
	require.Equal(t, running, g.state)
	q.Hold(&g.Call, at(9))
	return g
}

func leave(q *Queue, g *guest) { q.Leave(&g.Call, at(1)) }

// states says what each does: o is outside, w waits, c contends, r runs, h holds.
func states(all ...*guest) (s string) {
	for _, g := range all {
		if g.granted {
			s += "h"
		} else {
			s += "owcr"[g.state : g.state+1]
		}
	}
	return s
}

// reserved says which keys a guest reserves.
func reserved(q *Queue, g *guest) (s string) {
	for _, name := range g.keys {
		if k := q.keys[name]; k != nil && k.reserver == &g.Call {
			s += name
		}
	}
	return s
}

func TestQueue_CallsOfOneKeyRunInOrderOneAtATime(t *testing.T) {
	var q Queue
	a, b, c, other := enter(t, &q, "k"), enter(t, &q, "k"), enter(t, &q, "k"), enter(t, &q, "x")
	require.Equal(t, "rwwr", states(a, b, c, other))
	q.Hold(&a.Call, at(9))
	require.Equal(t, "hwwr", states(a, b, c, other))
	leave(&q, a)
	require.Equal(t, "orwr", states(a, b, c, other))
	leave(&q, b)
	require.Equal(t, "oorr", states(a, b, c, other))
	require.Equal(t, []int{0, 1, 1, 0}, []int{a.runs, b.runs, c.runs, other.runs})
	leave(&q, c)
	leave(&q, other)
	require.Empty(t, q.keys)
	require.Zero(t, q.Waiting())
}

// The goal: work conservation. All that can run do so, and those that can't do not stop others.
func TestQueue_ACallPassesThoseThatCannotRun(t *testing.T) {
	var q Queue
	hot := holder(t, &q, "h")
	first, second := enter(t, &q, "ha"), enter(t, &q, "hb")
	require.Equal(t, "a", reserved(&q, first))
	require.Empty(t, reserved(&q, second), "it is not first for the hot key")
	cold, reservedKey := enter(t, &q, "b"), enter(t, &q, "a")
	require.Equal(t, "hwwrw", states(hot, first, second, cold, reservedKey))
	q.Unreserve(&first.Call)
	require.Equal(t, "hwwrr", states(hot, first, second, cold, reservedKey))
	leave(&q, reservedKey)
	leave(&q, hot)
	require.Equal(t, "orwr", states(hot, first, second, cold))
}

func TestQueue_OneChangeLetsSeveralRunInOrderOfArrival(t *testing.T) {
	var q Queue
	all := holder(t, &q, "abcd")
	cd, abc, ab, d := enter(t, &q, "cd"), enter(t, &q, "abc"), enter(t, &q, "ab"), enter(t, &q, "d")
	leave(&q, all)
	require.Equal(t, "rwww", states(cd, abc, ab, d), "abc reserves a and b")
	leave(&q, cd)
	require.Equal(t, "orwr", states(cd, abc, ab, d))
}

// The goal: a call that only holders stop keeps what becomes free, and gets all.
func TestQueue_AReservationCollectsKeysAmongSingleCalls(t *testing.T) {
	var q Queue
	a, b := holder(t, &q, "a"), holder(t, &q, "b")
	both := enter(t, &q, "ab")
	laterA, laterB := enter(t, &q, "a"), enter(t, &q, "b")
	leave(&q, a)
	require.Equal(t, "a", reserved(&q, both))
	require.Equal(t, "www", states(both, laterA, laterB))
	require.Equal(t, 1, both.reservations)
	leave(&q, b)
	require.Equal(t, "rww", states(both, laterA, laterB))
	require.Empty(t, reserved(&q, both))
}

// The goal: an earlier call takes what a later one reserves.
func TestQueue_AReservationBindsOnlyLaterCalls(t *testing.T) {
	var q Queue
	x, y := holder(t, &q, "x"), holder(t, &q, "y")
	early, late := enter(t, &q, "xb"), enter(t, &q, "yb")
	require.Equal(t, "b", reserved(&q, early))
	q.Unreserve(&early.Call)
	require.Empty(t, reserved(&q, late), "it is not first for b")
	leave(&q, x)
	require.Equal(t, "rw", states(early, late))
	leave(&q, early)
	require.Empty(t, reserved(&q, late), "it waits for y, and is considered when y is free")
	early = enter(t, &q, "b")
	require.Equal(t, "hwr", states(y, late, early), "nobody keeps b from it")
}

// The goal: those far back in the queue of a hot key reserve no cold keys, unless maxOvertaken
// later calls had the hot key before them.
func TestQueue_OverdueCallsReserveAlthoughOthersAreBefore(t *testing.T) {
	var q Queue
	z, b := holder(t, &q, "z"), holder(t, &q, "b")
	hot := holder(t, &q, "a")
	before := enter(t, &q, "az")
	call := enter(t, &q, "ab")
	for i := range maxOvertaken {
		next := enter(t, &q, "a")
		leave(&q, hot)
		if i == 0 {
			require.Equal(t, "a", reserved(&q, before))
			q.Unreserve(&before.Call)
		}
		require.Equal(t, "wwr", states(before, call, next), "%d", i)
		q.Hold(&next.Call, at(9))
		hot = next
	}
	next := enter(t, &q, "b")
	leave(&q, b)
	require.Equal(t, "b", reserved(&q, call), "first for b, overdue for a")
	require.Equal(t, "ww", states(call, next))
	leave(&q, hot)
	require.Equal(t, "wr", states(before, call))
	leave(&q, z)
	require.Equal(t, "wr", states(before, call))
}

// The goal: an overdue call that reserves a key does not keep it from a call that is before it.
func TestQueue_AnEarlierCallTakesWhatAnOverdueOneReserves(t *testing.T) {
	var q Queue
	z, b, hot := holder(t, &q, "z"), holder(t, &q, "b"), holder(t, &q, "a")
	before, call := enter(t, &q, "az"), enter(t, &q, "ba")
	for range maxOvertaken {
		next := enter(t, &q, "a")
		leave(&q, hot)
		q.Unreserve(&before.Call)
		q.Hold(&next.Call, at(9))
		hot = next
	}
	leave(&q, b)
	require.Equal(t, "b", reserved(&q, call))
	next := enter(t, &q, "b")
	q.Unreserve(&call.Call)
	leave(&q, hot)
	require.Equal(t, "wwr", states(before, call, next))
	require.Equal(t, "a", reserved(&q, call))
	leave(&q, z)
	require.Equal(t, "rwr", states(before, call, next))
}

// The goal: calls that give up, are refused, or are granted in order do not make others overdue.
func TestQueue_OnlyGrantsOutOfOrderCountAsPasses(t *testing.T) {
	var q Queue
	hot := holder(t, &q, "a")
	call := enter(t, &q, "a")
	for range 3 * maxOvertaken {
		next := enter(t, &q, "a")
		leave(&q, hot)
		require.Equal(t, "rw", states(call, next))
		q.Contend(&call.Call, "a", false)
		require.Equal(t, "cw", states(call, next), "it stays in its place")
		require.True(t, q.Retry(&call.Call))
		q.Hold(&call.Call, at(9))
		q.Hold(&call.Call, at(10))
		require.True(t, q.GiveUp(&next.Call))
		hot, call = call, enter(t, &q, "a")
	}
	require.Empty(t, q.keys["a"].overtakers)
}

func TestQueue_ContentionKeepsOneKeyAndFreesTheOthers(t *testing.T) {
	var q Queue
	call, wantsA, wantsB := enter(t, &q, "ab"), enter(t, &q, "a"), enter(t, &q, "b")
	q.Contend(&call.Call, "a", false)
	require.Equal(t, "cwr", states(call, wantsA, wantsB), "it reserves nothing")
	require.Same(t, &call.Call, q.Contender(keys("ab")))
	require.Nil(t, q.Contender(keys("a")), "it wants other keys")
	require.Nil(t, q.Contender(keys("ba")), "it wants them in another order")
	q.Released(keys("xa"))
	require.Equal(t, []int{1, 0, 0}, []int{call.released, wantsA.released, wantsB.released})
	require.False(t, q.Retry(&call.Call))
	require.Equal(t, "wrr", states(call, wantsA, wantsB), "who wants a alone can ask now")
	require.Nil(t, q.Contender(keys("ab")))
	leave(&q, wantsB)
	leave(&q, wantsA)
	require.Equal(t, "r", states(call))
	require.Equal(t, 1, call.runs)
}

// The goal: a call reserves nothing while another process has one of its keys. When a call of this
// process was granted that key, it reserves again.
func TestQueue_NoReservationForAKeyOfAnotherProcess(t *testing.T) {
	var q Queue
	a, contends := holder(t, &q, "a"), enter(t, &q, "b")
	q.Contend(&contends.Call, "b", false)
	both, wantsA := enter(t, &q, "ab"), enter(t, &q, "a")
	leave(&q, a)
	require.Equal(t, "cwr", states(contends, both, wantsA), "nobody reserves a")
	require.True(t, q.Retry(&contends.Call))
	q.Hold(&contends.Call, at(1))
	late := enter(t, &q, "b")
	leave(&q, contends)
	require.Equal(t, "wrw", states(both, wantsA, late), "b is reserved")
	require.Equal(t, []string{"b"}, q.Unreserve(&both.Call))
	require.Equal(t, "wrr", states(both, wantsA, late))
}

// The goal: a call that was overtaken often keeps smaller keys while it waits for a larger one that
// another process has, and no larger ones while it waits for a smaller one.
func TestQueue_AnOverdueCallKeepsSmallerKeys(t *testing.T) {
	for contended, kept := range map[string]string{"b": "a", "a": ""} {
		var q Queue
		a := holder(t, &q, "a")
		both := enter(t, &q, "ab")
		q.Unreserve(&both.Call)
		b := enter(t, &q, "b")
		for range maxOvertaken {
			q.Hold(&b.Call, at(1))
			next := enter(t, &q, "b")
			leave(&q, b)
			b = next
		}
		leave(&q, b)
		leave(&q, a)
		require.Equal(t, "r", states(both))
		q.Contend(&both.Call, contended, false)
		require.Equal(t, kept, reserved(&q, both))
		wantsA, wantsB := enter(t, &q, "a"), enter(t, &q, "b")
		require.Equal(t, map[string]string{"b": "cww", "a": "cwr"}[contended],
			states(both, wantsA, wantsB))
		if kept != "" {
			require.Equal(t, []string{kept}, q.Unreserve(&both.Call))
			require.Equal(t, "crw", states(both, wantsA, wantsB))
			leave(&q, wantsA)
			require.True(t, q.Retry(&both.Call))
			q.Contend(&both.Call, contended, true)
			require.Empty(t, reserved(&q, both), "nothing is new")
		}
	}
}

// The goal: a call that other processes have refused often keeps smaller keys too, although no call
// of this process has overtaken it.
func TestQueue_ACallThatIsRefusedOftenKeepsSmallerKeys(t *testing.T) {
	var q Queue
	both := enter(t, &q, "ab")
	for range maxOvertaken {
		require.Empty(t, reserved(&q, both))
		q.Contend(&both.Call, "b", false)
		if reserved(&q, both) == "" {
			require.True(t, q.Retry(&both.Call))
		}
	}
	require.Equal(t, "a", reserved(&q, both))
}

// The goal: when a contention ends, the calls run in the order of arrival.
func TestQueue_RetryLetsAnEarlierCallRunFirst(t *testing.T) {
	var q Queue
	x := holder(t, &q, "x")
	early := enter(t, &q, "xk")
	q.Unreserve(&early.Call)
	late := enter(t, &q, "k")
	q.Contend(&late.Call, "k", false)
	leave(&q, x)
	require.Equal(t, "wc", states(early, late), "another process holds k, and late asks for it")
	require.False(t, q.Retry(&late.Call))
	require.Equal(t, "rw", states(early, late))
	leave(&q, early)
	require.Equal(t, "or", states(early, late))
}

func TestQueue_RetryDoesNothingUnlessTheCallContends(t *testing.T) {
	var q Queue
	runs, waits := enter(t, &q, "k"), enter(t, &q, "k")
	outside := &guest{}
	for range 2 {
		for _, g := range []*guest{runs, waits, outside} {
			require.False(t, q.Retry(&g.Call))
		}
	}
	require.Equal(t, "rwo", states(runs, waits, outside))
	require.Empty(t, broken(&q, []*Call{&runs.Call, &waits.Call}))
}

func TestQueue_GivingUpFreesReservationsAndContentions(t *testing.T) {
	var q Queue
	a := holder(t, &q, "a")
	both, b, c := enter(t, &q, "ab"), enter(t, &q, "b"), enter(t, &q, "b")
	require.True(t, q.GiveUp(&both.Call))
	require.Equal(t, "orw", states(both, b, c))
	require.False(t, q.GiveUp(&both.Call))
	require.False(t, q.GiveUp(&b.Call), "it runs")
	q.Contend(&b.Call, "b", false)
	require.True(t, q.GiveUp(&b.Call))
	require.Equal(t, "hor", states(a, b, c))
	leave(&q, c)
	leave(&q, a)
	require.Empty(t, q.keys)
}

func TestQueue_SuccessorIsTheNextCallIfItWantsTheSame(t *testing.T) {
	for _, test := range []struct {
		waiting []string
		next    int // -1: none
	}{
		{[]string{"ab", "ab"}, 0},
		{[]string{"ba", "ab"}, -1}, // another order
		{[]string{"a", "ab"}, -1},
		{[]string{"abc", "ab"}, -1},
		{[]string{"c", "ab"}, 1},
		{nil, -1},
	} {
		var q Queue
		h := holder(t, &q, "ab")
		other := holder(t, &q, "c")
		var all []*guest
		for _, s := range test.waiting {
			all = append(all, enter(t, &q, s))
		}
		next := q.Successor(&h.Call, at(5))
		if test.next < 0 {
			require.Nil(t, next)
			require.Equal(t, "hh", states(h, other))
			continue
		}
		require.Same(t, &all[test.next].Call, next)
		require.Equal(t, "or", states(h, all[test.next]))
		require.Zero(t, all[test.next].runs)
		require.Equal(t, passing{at(5), uint64(2 + len(all)), false}, q.keys["a"].passing)
		since, _, _ := q.Passing(&all[test.next].Call)
		require.Equal(t, at(5), since)
		require.Equal(t, "h", states(other))
	}
}

func TestQueue_PassingEndsWithAPause(t *testing.T) {
	var q Queue
	a, b := holder(t, &q, "k"), enter(t, &q, "k")
	yielding := false
	passes := func(g *guest, since time.Time, served bool) {
		t.Helper()
		s, all, yields := q.Passing(&g.Call)
		require.Equal(t, since, s)
		require.Equal(t, served, all)
		require.Equal(t, yielding, yields)
	}
	passes(a, time.Time{}, true)
	q.Leave(&a.Call, at(1))
	passes(b, at(1), false)
	q.Hold(&b.Call, at(9))
	c := enter(t, &q, "k")
	require.Equal(t, at(9), q.HeldUntil(&c.Call))
	passes(b, at(1), true) // c came later
	q.Leave(&b.Call, at(2))
	passes(c, at(1), true)
	q.Contend(&c.Call, "k", false)
	require.True(t, q.Retry(&c.Call))
	passes(c, time.Time{}, true)
	q.Hold(&c.Call, at(9))
	d, e := enter(t, &q, "k"), enter(t, &q, "k")
	q.Yield(&c.Call, at(3))
	q.Yield(&c.Call, at(4))
	yielding = true
	passes(c, at(4), false)
	q.Leave(&c.Call, at(5))
	passes(d, at(4), false)
	q.Leave(&d.Call, at(6)) // it was not granted the key
	passes(e, at(4), false)
	q.Hold(&e.Call, at(9))
	yielding = false
	passes(e, at(4), true)
}

func TestQueue_ALimitRefusesCallsAndHoldersDoNotCount(t *testing.T) {
	var q Queue
	a := holder(t, &q, "k")
	b := enter(t, &q, "k")
	c := &guest{}
	c.Caller = c
	_, ok := q.Enter(&c.Call, keys("x"), 1)
	require.False(t, ok)
	require.Equal(t, 1, q.Waiting())
	leave(&q, a)
	q.Hold(&b.Call, at(9))
	runs, ok := q.Enter(&c.Call, keys("x"), 1)
	require.True(t, runs && ok)
}

// The goal: a release of several keys notifies every call that contends for one of them, and no
// other call. A call that is missed would sleep until its own timer.
func TestQueue_AReleaseOfSeveralKeysNotifiesAllContenders(t *testing.T) {
	var q Queue
	a, b, c, other := enter(t, &q, "a"), enter(t, &q, "b"), enter(t, &q, "cd"), enter(t, &q, "x")
	for _, g := range []*guest{a, b, c, other} {
		q.Contend(&g.Call, g.keys[len(g.keys)-1], false)
	}
	runs := enter(t, &q, "r")
	q.Released(keys("narbd"))
	require.Equal(t, []int{1, 1, 1, 0, 0},
		[]int{a.released, b.released, c.released, other.released, runs.released})
}

// The goal: the contender that a lease may be handed to is found at whichever of the keys it
// contends. It is not, if another call contends for one of the keys: it could not run.
func TestQueue_TheContenderIsFoundAtAnyKey(t *testing.T) {
	for _, contended := range []string{"a", "b", "c"} {
		var q Queue
		call := enter(t, &q, "abc")
		q.Contend(&call.Call, contended, false)
		require.Same(t, &call.Call, q.Contender(keys("abc")), contended)
	}
	var q Queue
	both := enter(t, &q, "ab")
	q.Contend(&both.Call, "b", false)
	one := enter(t, &q, "a")
	q.Contend(&one.Call, "a", false)
	require.Equal(t, "cc", states(both, one))
	require.Nil(t, q.Contender(keys("ab")))
	require.Same(t, &one.Call, q.Contender(keys("a")))
}
