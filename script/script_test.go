package script_test

import (
	"crypto/sha1"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// onBoth runs a test on a real server and on an in-process one, because the scripts must do the
// same on both.
func onBoth(t *testing.T, test func(t *testing.T, n *lockpipetest.Nodes)) {
	t.Run("redis-server", func(t *testing.T) { test(t, servertest.Start(t, 1)) })
	t.Run("in-process", func(t *testing.T) {
		n, err := lockpipetest.StartInProcess(1)
		require.NoError(t, err)
		t.Cleanup(func() { _ = n.Close() })
		test(t, n)
	})
}

// do sends one command that must not fail.
func do(t *testing.T, n *lockpipetest.Nodes, args ...string) any {
	t.Helper()
	reply, err := n.Do(0, args...)
	require.NoError(t, err)
	return reply
}

// plan puts sets into calls of s; the sets' numbers are their places.
func plan(s *script.Script, sets ...script.Set) []script.Call {
	return planWith(s, false, sets)
}

// planWith is plan. alone: each set, or part of a large one, gets a call of its own.
func planWith(s *script.Script, alone bool, sets []script.Set) []script.Call {
	var p script.Plan
	p.Reset(s, alone)
	for i, set := range sets {
		p.Add(i, set)
	}
	return p.Calls()
}

// run makes the calls and returns the refusals by owner: the place of the key, or script.Refilled.
func run(t *testing.T, n *lockpipetest.Nodes, s *script.Script,
	sets ...script.Set,
) (refused map[int]int, changed int64) {
	t.Helper()
	refused = map[int]int{}
	for _, c := range plan(s, sets...) {
		refusals, sum := runCall(t, n, s, &c)
		changed += sum
		for _, r := range refusals {
			refused[c.Owners[r.Set]] = r.Key
		}
	}
	return refused, changed
}

// runCall makes one call, and returns the sets that were refused, or the number that was the reply.
func runCall(t *testing.T, n *lockpipetest.Nodes, s *script.Script, c *script.Call) (
	refusals []script.Refusal, changed int64,
) {
	t.Helper()
	args := append([]string{"EVAL", s.Source, strconv.Itoa(len(c.Keys))}, c.Keys...)
	switch reply := do(t, n, append(args, c.Args...)...).(type) {
	case int64:
		changed = reply
		_, err := script.Decode([]int64{reply}, c)
		require.NoError(t, err)
	case []any:
		var numbers []int64
		for _, v := range reply {
			numbers = append(numbers, v.(int64))
		}
		var err error
		refusals, err = script.Decode(numbers, c)
		require.NoError(t, err)
	default:
		t.Fatalf("reply %v", reply)
	}
	return refusals, changed
}

func set(token string, keys ...string) script.Set {
	return script.Set{Keys: keys, Token: token, TTL: "60000"}
}

// The goal: each set is granted or left alone as a whole, and the first held key is named.
func TestAcquireTakesEachSetAsAWhole(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		do(t, n, "SET", "held", "other")
		do(t, n, "ZADD", "list", "1", "x")
		refused, _ := run(t, n, script.Acquire,
			set("t0", "a"), set("t1", "b", "c", "d"), set("t2", "held"), set("t3", "e", "f",
				"held"), set("t4", "list"), set("t5", "g", "list"),
			set("t6", "a"), set("t7", "h", "c"), set("t8", "i"))
		require.Equal(t, map[int]int{2: 0, 3: 2, 4: 0, 5: 1, 6: 0, 7: 1}, refused)
		for key, want := range map[string]any{
			"a": "t0", "b": "t1", "c": "t1", "d": "t1",
			"held": "other", "e": nil, "f": nil, "g": nil, "h": nil, "i": "t8",
		} {
			require.Equal(t, want, do(t, n, "GET", key), key)
		}
		for _, key := range []string{"a", "b", "d", "i"} {
			require.InDelta(t, 60000, do(t, n, "PTTL", key), 30000, key)
		}
	})
}

// The goal: release deletes exactly the keys that hold the token, and names the sets of which a key
// did not.
func TestReleaseDeletesOnlyItsToken(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		for key, token := range map[string]string{"a": "t0", "b": "t1", "c": "other", "d": "t1"} {
			do(t, n, "SET", key, token)
		}
		do(t, n, "ZADD", "list", "1", "t2")
		gone, _ := run(t, n, script.Release, set("t0", "a"), set("t1", "b", "c", "d"),
			set("t2", "list", "missing"))
		require.Equal(t, map[int]int{1: -1, 2: -1}, gone)
		require.Equal(t, []any{nil, nil, "other", nil}, do(t, n, "MGET", "a", "b", "c", "d"))
		require.Equal(t, int64(1), do(t, n, "ZCARD", "list"))
	})
}

// The goal: extension moves the end of whole sets, refills missing keys without counting them, and
// leaves sets alone in which another's key stands.
func TestExtendGrantsRefillsOrLeavesAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		for key, token := range map[string]string{
			"a": "t0", "b": "t1", "c": "t1", "e": "t2",
			"g": "t3", "h": "other",
		} {
			do(t, n, "SET", key, token, "PX", "5000")
		}
		do(t, n, "ZADD", "list", "1", "t5")
		refused, _ := run(t, n, script.Extend,
			set("t0", "a"), set("t1", "b", "c"), set("t2", "d", "e"), set("t3", "f", "g", "h"),
			set("t4", "i"), set("t5", "list"), set("t6", "i"))
		require.Equal(t, map[int]int{
			2: script.Refilled, 3: 2, 4: script.Refilled, 5: 0,
			6: script.Refilled,
		}, refused)
		require.Equal(t, []any{"t2", "t2", nil, "t3", "other", "t4"}, do(t, n, "MGET", "d", "e",
			"f", "g", "h", "i"))
		for _, key := range []string{"a", "b", "c", "d", "e", "i"} {
			require.Greater(t, do(t, n, "PTTL", key), int64(30000), key)
		}
		for _, key := range []string{"g", "h"} {
			require.LessOrEqual(t, do(t, n, "PTTL", key), int64(5000), key)
		}
	})
}

// The goal: sets of one key, of many keys and of other TTLs go through one plan, and a call that is
// split does the same.
func TestMixedSetsFindTheirForms(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		do(t, n, "SET", "c", "other")
		var sets []script.Set
		for i, keys := range [][]string{{"a"}, {"b"}, {"c"}, {"d", "e"}, {"f"}, {"g"}, {"h", "c"}} {
			s := set(fmt.Sprint("t", i), keys...)
			if i == 4 {
				s.TTL = "90000"
			}
			sets = append(sets, s)
		}
		calls := plan(script.Acquire, sets...)
		require.Len(t, calls, 2)
		var all []script.Set
		for i := range 300 {
			all = append(all, set("t", fmt.Sprint("many", i)))
		}
		require.Len(t, plan(script.Acquire, all...), 2)
		refused, _ := run(t, n, script.Acquire, sets...)
		require.Equal(t, map[int]int{2: 0, 6: 1}, refused)
		require.Greater(t, do(t, n, "PTTL", "f"), int64(60000))
		require.LessOrEqual(t, do(t, n, "PTTL", "g"), int64(60000))
		refused, _ = run(t, n, script.Extend, sets...)
		require.Equal(t, map[int]int{2: 0, 6: 1}, refused)
		for _, part := range planWith(script.Release, true, sets) {
			args := append([]string{
				"EVAL", script.Release.Source,
				strconv.Itoa(len(part.Keys)),
			}, part.Keys...)
			var want any = int64(1)
			if owner := part.Owners[0]; owner == 2 || owner == 6 {
				want = []any{int64(0), int64(1), int64(0)}
			}
			require.Equal(t, want, do(t, n, append(args, part.Args...)...))
		}
		require.Equal(t, int64(1), do(t, n, "DBSIZE"))
	})
}

// The goal: an extension moves a key's end later and never nearer, alone or among others. A key
// without an end gets one.
func TestExtendNeverShortens(t *testing.T) {
	const none, before = "", 50000
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		for _, test := range []struct {
			px, ttl string
			want    int64
		}{{"50000", "5000", before}, {"50000", "90000", 90000}, {none, "5000", 5000}} {
			for _, keys := range [][]string{{"a"}, {"a", "b"}} {
				for _, key := range keys {
					set := []string{"SET", key, "t", "PX", test.px}
					if test.px == none {
						set = set[:3]
					}
					do(t, n, set...)
				}
				refused, _ := run(t, n, script.Extend, script.Set{
					Keys: keys, Token: "t", TTL: test.ttl,
				})
				require.Empty(t, refused)
				for _, key := range keys {
					require.Equal(t, "t", do(t, n, "GET", key))
					require.InDelta(t, test.want, do(t, n, "PTTL", key), 4000, test)
				}
			}
		}
	})
}

// The goal: if a server says that it is Redis 7, but does not know the options of PEXPIRE, an
// extension is an error. It is no grant, and changes nothing.
func TestExtendFailsWithoutTheOptions(t *testing.T) {
	const server = `local server = redis
local redis = { REDIS_VERSION_NUM = 0x070000, pcall = server.pcall }
function redis.call(name, ...)
  if name == 'PEXPIRE' and select('#', ...) > 2 then error('wrong number of arguments') end
  return server.call(name, ...)
end
`
	n := servertest.Start(t, 1)
	do(t, n, "SET", "k", "t", "PX", "50000")
	for _, ttl := range []string{"5000", "90000"} {
		_, err := n.Do(0, "EVAL", server+script.Extend.Source, "1", "k", ttl, "t")
		require.ErrorContains(t, err, "wrong number of arguments")
		require.InDelta(t, 50000, do(t, n, "PTTL", "k"), 4000)
	}
}

// The goal: when memory is full, a lease that can't be refilled does not cost another lease its
// extension.
func TestARefillThatFailsCostsNobodyElse(t *testing.T) {
	n := servertest.Start(t, 1)
	do(t, n, "SET", "mine", "t1", "PX", "5000")
	do(t, n, "CONFIG", "SET", "maxmemory", "1")
	refused, _ := run(t, n, script.Extend, set("t0", "missing"), set("t1", "mine"))
	require.Equal(t, map[int]int{0: script.Refilled}, refused)
	require.Greater(t, do(t, n, "PTTL", "mine"), int64(30000))
}

// The goal: large sets are spread over calls of at most MaxKeys keys, small ones are never torn,
// and places add up.
func TestCallsAreBoundedAndSmallSetsStayWhole(t *testing.T) {
	keys := make([]string, 2*script.MaxKeys+10)
	for i := range keys {
		keys[i] = "k" + strconv.Itoa(i)
	}
	sets := []script.Set{
		set("a", keys[:script.MaxKeys-1]...), set("b", "x", "y"), set("c", keys...), set("d", "z"),
		set("e", "y", "z"),
	}
	calls := plan(script.Acquire, sets...)
	var got []string
	for _, c := range calls {
		require.LessOrEqual(t, len(c.Keys), script.MaxKeys)
		require.Len(t, c.Offset, len(c.Owners))
		for i, owner := range c.Owners {
			got = append(got, fmt.Sprintf("%d:%d from %d", owner, c.Sizes[i], c.Offset[i]))
		}
	}
	require.ElementsMatch(t, []string{
		"0:249 from 0", "1:2 from 0", "2:250 from 0",
		"2:250 from 250", "2:10 from 500", "3:1 from 0", "4:2 from 0",
	}, got)
	for _, c := range calls {
		if slices.Contains(c.Owners, 2) {
			require.Len(t, c.Owners, 1, "a part of a large set is alone")
		}
	}
	alone := planWith(script.Acquire, true, sets)
	require.Len(t, alone, len(got))
	for _, c := range alone {
		require.Len(t, c.Owners, 1)
		require.Len(t, c.Keys, c.Sizes[0])
	}
}

// The goal: 10,000 keys and binary keys go through the scripts unharmed.
func TestManyAndBinaryKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		keys := []string{"\r\n\x00", strings.Repeat("k", 64<<10)}
		for i := len(keys); i < 2000; i++ {
			keys = append(keys, "many:"+strconv.Itoa(i))
		}
		refused, _ := run(t, n, script.Acquire, set("t", keys...))
		require.Empty(t, refused)
		require.Equal(t, int64(len(keys)), do(t, n, "DBSIZE"))
		require.Equal(t, "t", do(t, n, "GET", keys[0]))
		refused, _ = run(t, n, script.Extend, set("t", keys...))
		require.Empty(t, refused)
		gone, _ := run(t, n, script.Release, set("t", keys...))
		require.Empty(t, gone)
		require.Zero(t, do(t, n, "DBSIZE"))
	})
}

// The goal: a reply that does not add up is an error, never a grant.
func TestRepliesThatDoNotAddUpAreErrors(t *testing.T) {
	c := plan(script.Acquire, set("a", "w", "x"), set("b", "y", "z"))[0]
	for _, list := range [][]int64{
		nil,
		{},
		{2},
		{-1},
		{0},
		{1},
		{3},
		{1<<32 + 2},
		{1, 2},
		{1, 0, 1},
		{1, 3, 1},
		{1, 1, 3},
		{1, 1, -1},
		{0, 1, 1},
		{0, 2, 1, 1, 1},
		{0, 1, 1, 1, 1},
		{0, 1, 1, 2, 1, 2, 1},
	} {
		refusals, err := script.Decode(list, &c)
		if fmt.Sprint(list) == "[2]" {
			require.NoError(t, err)
			require.Empty(t, refusals)
			continue
		}
		require.Error(t, err, "%v", list)
	}
	refusals, err := script.Decode([]int64{0, 1, 1, 2, 0}, &c)
	require.NoError(t, err)
	require.Equal(t, []script.Refusal{{Set: 0, Key: 0}, {Set: 1, Key: script.Refilled}}, refusals)
}

// The goal: each script's constant name is the SHA-1 of its source, as servers compute it.
func TestTheNamesAreThoseOfTheSources(t *testing.T) {
	for _, s := range script.All() {
		require.Equal(t, fmt.Sprintf("%x", sha1.Sum([]byte(s.Source))), s.SHA, "%s.lua", s.Name)
	}
}

// The goal: the name by which EVALSHA calls a script is the server's own.
func TestTheServerNamesTheScriptsAlike(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		for _, s := range script.All() {
			require.Equal(t, s.SHA, do(t, n, "SCRIPT", "LOAD", s.Source))
		}
	})
}
