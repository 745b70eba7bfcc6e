package script_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// fenced is a set that asks for the numbers from first to last.
func fenced(token string, first, last int64, keys ...string) script.Set {
	s := set(token, keys...)
	s.Fence = &script.Fence{First: strconv.FormatInt(first, 10), Last: strconv.FormatInt(last, 10)}
	for _, k := range keys {
		s.Fence.FenceKeys = append(s.Fence.FenceKeys, "f:"+k)
	}
	return s
}

// runFenced makes the calls of AcquireFenced and returns the refusals by owner.
func runFenced(t *testing.T, n *lockpipetest.Nodes, sets ...script.Set) map[int]script.Refusal {
	t.Helper()
	refused := map[int]script.Refusal{}
	for _, c := range plan(script.AcquireFenced, sets...) {
		refusals, _ := runCall(t, n, script.AcquireFenced, &c)
		for _, r := range refusals {
			owner := c.Owners[r.Set]
			r.Set = 0
			refused[owner] = r
		}
	}
	return refused
}

// The goal: a set is granted only if its fence is above all its fence keys, which have its last
// number then, for a day. Otherwise it is left alone as a whole, and the reply has the highest
// number of the fence keys, or the key that is held.
func TestAFencedSetIsGrantedOnlyAboveItsFenceKeys(t *testing.T) {
	const highest = 1<<53 - 1
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		do(t, n, "MSET", "f:low", "1763743207000000", "f:same", "1763743207000001", "f:high",
			"1763743207000009", "f:top", strconv.Itoa(highest),
			"f:endless", "99999999999999999", "f:odd", "a token", "f:nan", "nan", "held", "other",
			"f:held", "9000000000000000")
		do(t, n, "ZADD", "f:list", "1", "x")
		const first, last = 1763743207000001, 1763743207000005
		names := [][]string{
			{"low"},
			{"same"},
			{"high"},
			{"top"},
			{"endless"},
			{"odd"},
			{"held"},
			{"new"},
			{"list"},
			{"a", "low2"},
			{"b", "high", "same"},
			{"c", "held"},
			{"d", "odd"},
			{"e", "f"},
			{"nan"},
			{"g", "nan", "high"},
		}
		var sets []script.Set
		for i, keys := range names {
			sets = append(sets, fenced(fmt.Sprint("t", i), first, last, keys...))
		}
		stale := func(seen int64) script.Refusal { return script.Refusal{HighestFence: seen} }
		require.Equal(t, map[int]script.Refusal{
			1: stale(first), 2: stale(1763743207000009), 3: stale(highest), 4: stale(highest),
			5: {Key: 0}, 6: {Key: 0},
			10: stale(1763743207000009), 11: {Key: 1}, 12: {Key: 1}, 14: {Key: 0}, 15: {Key: 1},
		}, runFenced(t, n, sets...))
		for key, want := range map[string]any{
			"low": "t0", "same": nil, "high": nil, "top": nil, "odd": nil, "held": "other",
			"new": "t7", "list": "t8", "a": "t9", "low2": "t9",
			"b": nil, "c": nil, "d": nil, "e": "t13", "f": "t13",
			"f:low": "1763743207000005", "f:same": "1763743207000001", "f:new": "1763743207000005",
			"f:list": "1763743207000005",
			"f:f":    "1763743207000005", "f:b": nil, "f:c": nil, "f:odd": "a token",
			"nan": nil, "g": nil, "f:nan": "nan",
		} {
			require.Equal(t, want, do(t, n, "GET", key), key)
		}
		for _, key := range []string{"f:low", "f:new", "f:e"} {
			require.InDelta(t, 86400000, do(t, n, "PTTL", key), 30000, key)
		}
		for _, key := range []string{"low", "new", "e"} {
			require.InDelta(t, 60000, do(t, n, "PTTL", key), 30000, key)
		}
	})
}

// The goal: a fence key is raised to at least the number, and never lowered.
func TestRaiseFenceNeverLowers(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		do(t, n, "MSET", "low", "999999999999999", "same", "1000000000000000", "high",
			"1000000000000001", "odd", "a token", "nan", "nan")
		_, raised := run(t, n, script.RaiseFence, set("1000000000000000", "low"),
			set("1000000000000000", "same", "high", "missing", "odd", "nan"), set("7", "new"))
		require.Equal(t, int64(3), raised)
		require.Equal(t, []any{
			"1000000000000000", "1000000000000000", "1000000000000001",
			"1000000000000000", "a token", "nan", "7",
		},
			do(t, n, "MGET", "low", "same", "high", "missing", "odd", "nan", "new"))
		require.InDelta(t, 86400000, do(t, n, "PTTL", "low"), 30000)
		require.Equal(t, int64(-1), do(t, n, "PTTL", "same"))

		do(t, n, "ZADD", "list", "1", "x")
		_, raised = run(t, n, script.RaiseFence, set("9", "twice"), set("8", "twice"),
			set("8", "list"))
		require.Equal(t, int64(2), raised)
		require.Equal(t, []any{"9", "8"}, do(t, n, "MGET", "twice", "list"))
	})
}

// The goal: a call names no more keys with fencing than without, fence keys counted, and sets that
// are split or spread find their fence keys.
func TestFencedCallsAreBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		keys := make([]string, 2*script.AcquireFenced.MaxSet()+10)
		for i := range keys {
			keys[i] = "k" + strconv.Itoa(i)
		}
		sets := []script.Set{fenced("a", 5, 9, keys...), fenced("b", 5, 5, "x", "y"), fenced("c", 6,
			6, "z"), fenced("d", 7, 7, "w")}
		for _, c := range plan(script.AcquireFenced, sets...) {
			require.LessOrEqual(t, len(c.Keys), script.MaxKeys)
			for _, part := range c.Split() {
				require.Len(t, part.Keys, 2*part.Sizes[0])
				args := append([]string{
					"EVAL", script.AcquireFenced.Source,
					strconv.Itoa(len(part.Keys)),
				}, part.Keys...)
				require.Equal(t, int64(1), do(t, n, append(args, part.Args...)...))
			}
		}
		for _, k := range keys {
			require.Equal(t, []any{"a", "9"}, do(t, n, "MGET", k, "f:"+k))
		}
		require.Equal(t, []any{"b", "5", "b", "5", "c", "6", "d", "7"}, do(t, n, "MGET", "x", "f:x",
			"y", "f:y", "z", "f:z", "w", "f:w"))
		do(t, n, "DEL", "k130")
		refused := runFenced(t, n, fenced("e", 9, 9, keys[130:131]...), fenced("f", 10, 10, "x"))
		require.Equal(t, map[int]script.Refusal{0: {HighestFence: 9}, 1: {Key: 0}}, refused)
	})
}

// The goal: numbers of fence keys are read only from a script that replies with them, and only up
// to the highest number there is.
func TestNumbersOfFenceKeysAreChecked(t *testing.T) {
	c := plan(script.AcquireFenced, fenced("a", 1, 1, "x"))[0]
	refusals, err := script.DecodeList(nil, []int64{0, 1, -script.MaxFence}, &c)
	require.NoError(t, err)
	require.Equal(t, []script.Refusal{{HighestFence: script.MaxFence}}, refusals)
	for _, n := range []int64{-script.MaxFence - 1, -1 << 63} {
		_, err := script.DecodeList(nil, []int64{0, 1, n}, &c)
		require.Error(t, err)
	}
	c = plan(script.Acquire, set("a", "x"))[0]
	_, err = script.DecodeList(nil, []int64{0, 1, -5}, &c)
	require.Error(t, err)
}

// The goal: of two sets of one call that have a key in common the first is granted, and the second
// refused as held, although it was not held when the call began; and the fence key keeps the number
// of the first.
func TestFencedSetsOfOneCallSeeEachOther(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		refused := runFenced(t, n, fenced("t1", 10, 15, "a"), fenced("t2", 20, 20, "a"))
		require.Equal(t, map[int]script.Refusal{1: {}}, refused)
		refused = runFenced(t, n, fenced("t3", 30, 30, "b", "x"), fenced("t4", 40, 40, "c", "b"),
			fenced("t5", 50, 50, "c", "d"), fenced("t6", 60, 60, "d", "y"))
		require.Equal(t, map[int]script.Refusal{1: {Key: 1}, 3: {}}, refused)
		for key, want := range map[string]any{
			"a": "t1", "b": "t3", "c": "t5", "d": "t5", "f:a": "15", "f:b": "30", "f:c": "50",
			"f:d": "50",
		} {
			require.Equal(t, want, do(t, n, "GET", key), key)
		}
	})
}
