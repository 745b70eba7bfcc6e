package script_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// layoutsOf runs script.Layouts, and returns the other entries, without their times.
func layoutsOf(t *testing.T, n *lockpipetest.Nodes, own string, lasts int, yields string) []string {
	t.Helper()
	reply := do(t, n, "EVAL", script.Layouts.Source, "1", "layouts", own, strconv.Itoa(lasts),
		yields)
	return entries(t, reply)
}

// entries takes the times off entries.
func entries(t *testing.T, text any) (ids []string) {
	t.Helper()
	for entry := range strings.FieldsSeq(text.(string)) {
		require.Regexp(t, `^[\w,]+=\d+$`, entry)
		ids = append(ids, regexp.MustCompile(`=.*`).ReplaceAllString(entry, ""))
	}
	return ids
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
		require.Empty(t, layoutsOf(t, n, "A", 100_000, ""))
		require.Equal(t, []string{"A"}, layoutsOf(t, n, "A,B", 200_000, ""))
		require.Equal(t, []string{"A,B", "A"}, layoutsOf(t, n, "C", 50_000, ""))
		require.Equal(t, []string{"C", "A,B", "A"}, entries(t, do(t, n, "GET", "layouts")))
		require.InDelta(t, 200_000, do(t, n, "PTTL", "layouts"), 30_000, "the longest end")
		var c int64
		_, err := fmt.Sscanf(do(t, n, "GET", "layouts").(string), "C=%d", &c)
		require.NoError(t, err)
		require.InDelta(t, serverNow(t, n)+50_000, c, 30_000)
		reply := do(t, n, "EVAL", script.Layouts.Source, "1", "layouts", "D", "0", "").(string)
		_, err = fmt.Sscanf(reply, "A,B=%d", &c)
		require.NoError(t, err)
		require.InDelta(t, 200_000, c, 30_000, "how long it lasts")
	})
}

func TestLayouts_DropsWhatHasEnded(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		now := serverNow(t, n)
		do(t, n, "SET", "layouts", fmt.Sprintf("old=%d new=%d", now-1, now+100_000))
		require.Equal(t, []string{"new"}, layoutsOf(t, n, "A", 0, ""))
		require.Equal(t, []string{"new"}, layoutsOf(t, n, "A", 50_000, ""))
		require.Equal(t, []string{"A", "new"}, entries(t, do(t, n, "GET", "layouts")))
		require.InDelta(t, 100_000, do(t, n, "PTTL", "layouts"), 30_000)
	})
}

// The goal: of many clients one writes, and no end comes nearer.
func TestLayouts_WritesOnlyIfItHasTo(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		layoutsOf(t, n, "A", 100_000, "")
		before := do(t, n, "GET", "layouts")
		for _, lasts := range []int{0, 1000, 109_000} {
			layoutsOf(t, n, "A", lasts, "")
			require.Equal(t, before, do(t, n, "GET", "layouts"), lasts)
		}
		layoutsOf(t, n, "A", 160_000, "")
		require.InDelta(t, 160_000, do(t, n, "PTTL", "layouts"), 30_000)
	})
}

func TestLayouts_LeavesNothingBesideAForeignEntryIfItYields(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		layoutsOf(t, n, "B,C", 100_000, "1")
		require.Equal(t, []string{"B,C"}, layoutsOf(t, n, "A", 100_000, "1"))
		require.Equal(t, []string{"B,C"}, entries(t, do(t, n, "GET", "layouts")))
		layoutsOf(t, n, "A,B", 100_000, "1")
		require.Equal(t, []string{"A,B", "B,C"}, entries(t, do(t, n, "GET", "layouts")))
		layoutsOf(t, n, "A", 100_000, "")
		require.Len(t, entries(t, do(t, n, "GET", "layouts")), 3)
	})
}

func TestLayouts_KeepsAtMost64(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		now, text := serverNow(t, n), ""
		for i := range 100 {
			text += fmt.Sprintf("x%d=%d ", i, now+100_000+int64(i)*1000)
		}
		do(t, n, "SET", "layouts", text)
		layoutsOf(t, n, "A", 50_000, "")
		kept := entries(t, do(t, n, "GET", "layouts"))
		require.Len(t, kept, 64)
		require.Equal(t, "A", kept[0], "the own one ends first, and stays")
		require.Equal(t, []string{"x99", "x37"}, []string{kept[1], kept[63]})
	})
}

func TestLayouts_IgnoresWhatIsNoEntry(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		end := serverNow(t, n) + 100_000
		do(t, n, "SET", "layouts", fmt.Sprintf("odd = =7 w= B=%d B=7 C=%s %s=%d", end,
			strings.Repeat("9", 20), strings.Repeat("x", 65), end))
		require.Equal(t, []string{"B"}, layoutsOf(t, n, "A", 50_000, ""))
		do(t, n, "DEL", "layouts")
		do(t, n, "ZADD", "layouts", "1", "x")
		_, err := n.Do(0, "EVAL", script.Layouts.Source, "1", "layouts", "A", "50000", "")
		require.Error(t, err)
	})
}
