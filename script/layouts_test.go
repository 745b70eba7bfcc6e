package script_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// runLayouts runs script.Layouts for a client, and returns the other fields in the order of the
// reply. lasts is in milliseconds.
func runLayouts(t *testing.T, n *lockpipetest.Nodes, own string, lasts int, owner, runIDs string,
) (others []string) {
	t.Helper()
	reply := do(t, n, "EVAL", script.Layouts.Source, "1", "layouts", own, strconv.Itoa(lasts),
		owner, runIDs).([]any)
	now, err := strconv.ParseInt(reply[0].(string), 10, 64)
	require.NoError(t, err)
	require.InDelta(t, serverNow(t, n), now, 5000)
	kept := keptLayouts(t, n)
	for i := 1; i < len(reply); i += 2 {
		field := reply[i].(string)
		require.Equal(t, kept[field], reply[i+1])
		others = append(others, field)
	}
	return others
}

// keptLayouts returns the fields and values that the node keeps.
func keptLayouts(t *testing.T, n *lockpipetest.Nodes) map[string]string {
	t.Helper()
	all := make(map[string]string)
	pairs := do(t, n, "HGETALL", "layouts").([]any)
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i].(string)] = pairs[i+1].(string)
	}
	return all
}

// serverNow is the server's clock, in milliseconds.
func serverNow(t *testing.T, n *lockpipetest.Nodes) int64 {
	t.Helper()
	reply := do(t, n, "TIME").([]any)
	seconds, err := strconv.ParseInt(reply[0].(string), 10, 64)
	require.NoError(t, err)
	return seconds * 1000
}

func TestLayouts_KeepsOwnAndRepliesTheOthers(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		require.Empty(t, runLayouts(t, n, "A 1", 100_000, "me", `{"x y":"1"}`))
		require.Equal(t, []string{"A 1"}, runLayouts(t, n, "B", 200_000, "-", "{}"))
		require.Equal(t, []string{"B", "A 1"}, runLayouts(t, n, "C", 50_000, "-", ""))
		require.InDelta(t, 200_000, do(t, n, "PTTL", "layouts"), 30_000, "the longest end")
		end, rest, _ := strings.Cut(keptLayouts(t, n)["A 1"], " ")
		require.Equal(t, `me {"x y":"1"}`, rest)
		ms, err := strconv.ParseInt(end, 10, 64)
		require.NoError(t, err)
		require.InDelta(t, serverNow(t, n)+100_000, ms, 30_000)
		require.Len(t, keptLayouts(t, n), 3)
	})
}

func TestLayouts_DropsWhatHasEndedOrIsNone(t *testing.T) {
	n := servertest.Start(t, 1)
	now := serverNow(t, n)
	do(t, n, "HSET", "layouts", "old", fmt.Sprint(now-1, " - {}"), "new",
		fmt.Sprint(now+100_000, " - {}"), "odd", "x", "empty", "",
		"far", strings.Repeat("9", 16)+" - {}", "own", strings.Repeat("9", 400)+" - {}")
	require.Equal(t, []string{"new"}, runLayouts(t, n, "own", 50_000, "-", "{}"))
	require.Len(t, keptLayouts(t, n), 2)
	require.InDelta(t, 100_000, do(t, n, "PTTL", "layouts"), 30_000)
	do(t, n, "DEL", "layouts")
	do(t, n, "SET", "layouts", "x")
	_, err := n.Do(0, "EVAL", script.Layouts.Source, "1", "layouts", "A", "50000", "-", "{}")
	require.Error(t, err)
}

// The goal: of many clients one writes, no end comes nearer, and new run_ids are there at once.
func TestLayouts_WritesOnlyIfItHasTo(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		runLayouts(t, n, "A", 100_000, "me", "{}")
		before := keptLayouts(t, n)
		for _, lasts := range []int{0, 1000, 109_000} {
			runLayouts(t, n, "A", lasts, "other", "{}")
			require.Equal(t, before, keptLayouts(t, n), lasts)
		}
		runLayouts(t, n, "A", 1000, "other", `{"a":"1"}`)
		end, _, _ := strings.Cut(before["A"], " ")
		require.Equal(t, end+` other {"a":"1"}`, keptLayouts(t, n)["A"])
		runLayouts(t, n, "A", 160_000, "third", `{"a":"1"}`)
		require.Contains(t, keptLayouts(t, n)["A"], " third ")
		require.InDelta(t, 160_000, do(t, n, "PTTL", "layouts"), 30_000)
	})
}

// The goal: what a node keeps and replies is bounded, whoever wrote it.
func TestLayouts_KeepsAtMost64(t *testing.T) {
	n := servertest.Start(t, 1)
	now := serverNow(t, n)
	for i := range 100 {
		do(t, n, "HSET", "layouts", fmt.Sprint("x", i),
			fmt.Sprint(now+100_000+int64(i)*1000, " - {}"))
	}
	others := runLayouts(t, n, "A", 50_000, "-", "{}")
	require.Len(t, others, 63)
	require.Equal(t, []string{"x99", "x37"}, []string{others[0], others[62]})
	require.Len(t, keptLayouts(t, n), 64, "the own one ends first, and stays")
	large := strings.Repeat("x", 96_000)
	do(t, n, "HSET", "layouts", "large", fmt.Sprint(now+900_000, " - ", large),
		"x98", fmt.Sprint(now+800_000, " - ", large[50:]))
	require.Equal(t, []string{"x98", "x99"}, runLayouts(t, n, "A", 50_000, "-", "{}"))
}
