package bench

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is asked for is understood as it was meant, and says itself again in the same form.
func TestFaultsAreParsed(t *testing.T) {
	plan,
		err := parseFaults(
		"freeze:1@2s+3s, kill:2@4s,restart:2@6s,flush:3@0s,readonly:5@1m+500ms,every:1s", 5,
		time.Hour)
	require.NoError(t, err)
	require.Equal(t, faultPlan{interval: time.Second, list: []fault{
		{freeze, 1, 2 * time.Second, 3 * time.Second},
		{kill, 2, 4 * time.Second, 0},
		{restart, 2, 6 * time.Second, 0},
		{flush, 3, 0, 0},
		{readOnly, 5, time.Minute, 500 * time.Millisecond},
	}}, plan)
	for _, f := range plan.list {
		again, err := parseFaults(f.String(), 5, time.Hour)
		require.NoError(t, err)
		require.Equal(t, []fault{f}, again.list)
	}
	for _, a := range actions {
		text := string(a) + ":1@1s"
		if a.lasts() {
			text += "+1s"
		}
		_, err := parseFaults(text, 5, time.Hour)
		require.NoError(t, err)
	}
	none, err := parseFaults("", 5, time.Hour)
	require.NoError(t, err)
	require.Empty(t, none.schedule(Default(Single), 5))
}

// What can't be done is refused with its text, its place and what to give instead.
func TestFaultsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, tc := range []struct{ text, value, remedy string }{
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
		_, err := parseFaults(tc.text, 5, 10*time.Second)
		var wrong *ConfigError
		require.ErrorAs(t, err, &wrong, "%.40s", tc.text)
		require.Equal(t, "Faults", wrong.Field)
		require.Equal(t, tc.value, wrong.Value)
		require.Contains(t, wrong.Remedy, tc.remedy)
	}
	_, err := parseFaults("every:1s", 5, 100*time.Hour)
	require.ErrorContains(t, err, "more than 10000 faults in 100h0m0s; give a longer interval")
}

// Faults can't happen to nodes that the run does not start, or that are no processes.
func TestFaultsNeedServersOfTheRun(t *testing.T) {
	for _, nodes := range []string{"redis://localhost:1,localhost:2,localhost:3", "inprocess:3"} {
		cfg := Default(Single)
		cfg.Nodes, cfg.Faults = nodes, "flush:1@1s"
		var wrong *ConfigError
		require.ErrorAs(t, cfg.Validate(), &wrong)
		require.Equal(t, "Faults", wrong.Field)
		require.Contains(t, wrong.Remedy, "local:5")
	}
}

// outs is how many nodes are broken or have forgotten locks that may still count, at a time.
func outs(list []fault, at time.Duration, forgets time.Duration) int {
	out := make(map[int]bool)
	for i, f := range list {
		end := f.end()
		if f.action == kill {
			end = time.Hour
			for _, r := range list[i:] {
				if r.node == f.node && r.action == restart {
					end = r.at
					break
				}
			}
		}
		if f.action.quarantines() {
			end += forgets
		}
		if f.at <= at && at < end {
			out[f.node] = true
		}
	}
	return len(out)
}

// Random faults come at each interval, never on a node that has one, and never on a majority at the
// same time, beside those that were asked for; the same seed draws the same.
func TestRandomFaultsLeaveAQuorum(t *testing.T) {
	drawn := make(map[action]bool)
	for nodes := 1; nodes <= 7; nodes++ {
		for seed := range uint64(30) {
			cfg := Default(Single)
			cfg.Duration, cfg.TTL, cfg.FaultSeed = 30*time.Second, 2*time.Second, seed
			text := "every:300ms"
			minority := (nodes - 1) / 2
			if minority > 0 {
				text = "kill:1@3s,every:300ms,restart:1@5s"
			}
			plan, err := parseFaults(text, nodes, cfg.Duration)
			require.NoError(t, err)
			list := plan.schedule(cfg, nodes)
			require.NoError(t, consistent(list))
			require.Equal(t, list, plan.schedule(cfg, nodes))
			starts := make(map[time.Duration]bool)
			for _, f := range list {
				require.Less(t, f.at, cfg.Duration)
				require.LessOrEqual(t, outs(list, f.at, cfg.TTL), max(minority, 1),
					"%d nodes at %v: %v", nodes, f.at, list)
				require.True(t, minority > 0 || f.action == scriptFlush, "%v", f)
				starts[f.at], drawn[f.action] = true, true
			}
			for k := 1; k < 100; k++ {
				require.True(t, starts[time.Duration(k)*300*time.Millisecond],
					"no fault in interval %d of %d nodes", k, nodes)
			}
			cfg.FaultSeed += 1000
			require.True(t, nodes == 1 || !slices.Equal(list, plan.schedule(cfg, nodes)),
				"another seed draws the same")
		}
	}
	require.Len(t, drawn, len(actions))
}
