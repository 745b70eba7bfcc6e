package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Goal: a list is read as it is meant, and a fault prints itself in the form that is read.
func TestParse_AndBack(t *testing.T) {
	const text = "freeze:1@2s+3s, kill:2@4s,restart:2@6s,flush:3@0s,readonly:5@1m+500ms,every:1s"
	plan, err := Parse(text, 5, false, time.Hour)
	require.NoError(t, err)
	require.Equal(t, Plan{interval: time.Second, list: []Fault{
		{freeze, 1, 2 * time.Second, 3 * time.Second},
		{kill, 2, 4 * time.Second, 0},
		{restart, 2, 6 * time.Second, 0},
		{wipe, 3, 0, 0},
		{readOnly, 5, time.Minute, 500 * time.Millisecond},
	}}, plan)
	for _, f := range plan.list {
		again, err := Parse(f.String(), 5, false, time.Hour)
		require.NoError(t, err)
		require.Equal(t, []Fault{f}, again.list)
	}
	for _, a := range actions {
		text := a.name + ":1@1s"
		if a.lasts {
			text += "+1s"
		}
		for _, cluster := range []bool{false, true} {
			_, err := Parse(text, 5, cluster, time.Hour)
			require.Equal(t, a.happensIn(cluster), err == nil, text)
		}
	}
	none, err := Parse("", 5, false, time.Hour)
	require.NoError(t, err)
	require.Empty(t, none.schedule(Draw{Nodes: 5, Duration: time.Hour}))
}

// Goal: an item that can't be used is refused with its text, its place and a remedy.
func TestParse_RefusesWithARemedy(t *testing.T) {
	for _, tc := range []struct{ text, item, remedy string }{
		{"freeze", "freeze", "fault 1: give action:node@time"},
		{"flush:1@1s,,", "", "fault 2: give action:node@time"},
		{
			"flush:1@1s,melt:1@1s", "melt:1@1s",
			`fault 2: no action is called "melt"; choose one of [freeze kill`,
		},
		{"flush:1", "flush:1", "no @time; give action:node@time"},
		{"flush:6@1s", "flush:6@1s", `no node is called "6"; give 1 to 5`},
		{"flush:0@1s", "flush:0@1s", "give 1 to 5"},
		{"flush:x@1s", "flush:x@1s", "give 1 to 5"},
		{
			"flush:1@soon", "flush:1@soon",
			`"soon" is not a time within the run; give one such as 2s, below 10s`,
		},
		{"flush:1@-1s", "flush:1@-1s", "is not a time within the run"},
		{"flush:1@10s", "flush:1@10s", "below 10s"},
		{"flush:1@1s+1s", "flush:1@1s+1s", "flush has no duration; leave out +1s"},
		{"freeze:1@1s", "freeze:1@1s", "freeze needs a duration; give one such as freeze:1@1s+3s"},
		{"oom:1@1s+long", "oom:1@1s+long", `"long" is not a duration`},
		{"busy:1@1s+0s", "busy:1@1s+0s", "give one above 0"},
		{"every:1ms", "every:1ms", "give at least 100ms"},
		{"every:often", "every:often", `"often" is not an interval`},
		{"every:1s,every:2s", "every:2s", "fault 2: every is there already"},
		{"freeze:1@1s+2s,flush:1@2s", "flush:1@2s", "node 1 is under freeze:1@1s+2s; give a " +
			"time from 3s on"},
		{"flush:1@2s,freeze:1@1s+2s", "flush:1@2s", "node 1 is under freeze:1@1s+2s"},
		{
			"kill:1@1s,freeze:1@2s+1s", "freeze:1@2s+1s",
			"node 1 is dead since 1s; restart it before",
		},
		{
			strings.Repeat("flush:1@1s,", maxFaults) + "flush:2@2s", "flush:2@2s",
			"too many; give at most",
		},
	} {
		_, err := Parse(tc.text, 5, false, 10*time.Second)
		var wrong *Error
		require.ErrorAs(t, err, &wrong, "%.40s", tc.text)
		require.Equal(t, tc.item, wrong.Item)
		require.Contains(t, wrong.Remedy, tc.remedy)
		require.ErrorContains(t, wrong, tc.remedy)
	}
	_, err := Parse("demote:1@1s+1s", 3, true, time.Hour)
	require.ErrorContains(t, err, "demote does not happen to nodes that are in a Redis Cluster; "+
		"choose one of [freeze")
	_, err = Parse("deposed:1@1s+1s", 3, false, time.Hour)
	require.ErrorContains(t, err, "nodes that are in no Redis Cluster; choose one of [freeze")
	_, err = Parse("every:1s", 5, false, 100*time.Hour)
	require.ErrorContains(t, err, "more than 10000 faults in 100h0m0s; give a longer interval")
}
