package bench

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The names in the JSON are what other programs rely on.
func TestReportNames(t *testing.T) {
	text, err := json.Marshal(Report{FirstError: "x"})
	require.NoError(t, err)
	var report map[string]any
	require.NoError(t, json.Unmarshal(text, &report))
	require.ElementsMatch(t, []string{
		"version", "scenario", "backend", "nodes", "config", "duration_s", "acquired", "released",
		"refused", "no_quorum",
		"expired", "lost", "errors", "first_error", "unserved", "violations", "fence_regressions",
		"leftover_keys", "locks_per_s", "acquire_ms",
		"release_ms", "client_cpu_us_per_lock", "allocs_per_lock", "ops_per_flush",
		"goroutines_before", "goroutines_most",
		"goroutines_after",
	}, slices.Collect(maps.Keys(report)))
	require.Nil(t, Report{}.HoldReport)
	require.Nil(t, Report{}.HotReport)
	require.Nil(t, Report{}.FaultReport)
	for _, name := range []string{"acquire_ms", "release_ms"} {
		latency, ok := report[name].(map[string]any)
		require.True(t, ok)
		require.ElementsMatch(t, []string{"p50", "p90", "p99", "p999", "max", "mean"},
			slices.Collect(maps.Keys(latency)))
	}
}

// The scenario Hold has more names, beside the others.
func TestHoldReportNames(t *testing.T) {
	r := Report{Lost: 3, HoldReport: &HoldReport{
		Leases: 4, ExtensionsPerS: 5,
		ClientRSSBytesPerLease: 6, ClientCPUCores: 7, FirstDead: "x",
	}}
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var names map[string]any
	require.NoError(t, json.Unmarshal(text, &names))
	for name, want := range map[string]float64{
		"leases": 4, "lost": 3, "extensions_per_s": 5, "client_rss_bytes_per_lease": 6,
		"client_cpu_cores": 7,
		"samples":          0, "dead": 0, "unanswered": 0, "take_s": 0, "keep_s": 0, "give_s": 0,
		"acquired": 0, "leftover_keys": 0,
	} {
		require.InDelta(t, want, names[name], 0, name)
	}
	require.Equal(t, "x", names["first_dead"])
	var back Report
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, r, back)
}

// The scenario Hot has more names too, beside the others.
func TestHotReportNames(t *testing.T) {
	r := Report{HotReport: &HotReport{
		WaitMs: Latency{P50: 1, Max: 2}, MaxWaitMs: 3, Handovers: 4, SplitVotes: 5,
		AttemptsPerLock: 6, LocksPerCallerCV: 7, MinShare: 8,
	}}
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var names map[string]any
	require.NoError(t, json.Unmarshal(text, &names))
	for name, want := range map[string]float64{
		"max_wait_ms": 3, "handovers": 4, "split_votes": 5, "attempts_per_lock": 6,
		"locks_per_caller_cv": 7, "min_share": 8,
		"acquired": 0, "leftover_keys": 0,
	} {
		require.InDelta(t, want, names[name], 0, name)
	}
	wait, ok := names["wait_ms"].(map[string]any)
	require.True(t, ok)
	require.ElementsMatch(t, []string{"p50", "p90", "p99", "p999", "max", "mean"},
		slices.Collect(maps.Keys(wait)))
	var back Report
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, r, back)
}

// A lease that was lost is what other scenarios may see, and what Hold is there to exclude.
func TestHoldIsSafeWithoutLostAndDeadLeases(t *testing.T) {
	require.True(t, (&Report{Lost: 1}).Safe())
	require.True(t, (&Report{HoldReport: &HoldReport{}}).Safe())
	require.False(t, (&Report{Lost: 1, HoldReport: &HoldReport{}}).Safe())
	require.False(t, (&Report{HoldReport: &HoldReport{Dead: 1}}).Safe())
	require.False(t, (&Report{LeftoverKeys: 1, HoldReport: &HoldReport{}}).Safe())
}

// Rates and costs are per lock; a run without any has zeros rather than no numbers.
func TestReportFill(t *testing.T) {
	var r Report
	r.fill(measured{elapsed: 2 * time.Second, acquired: 100, cost: cost{
		cpu:    time.Millisecond,
		allocs: 250,
	}, violated: 3})
	require.InDelta(t, 50, r.LocksPerS, 1e-9)
	require.InDelta(t, 10, r.ClientCPUUsPerLock, 1e-9)
	require.InDelta(t, 2.5, r.AllocsPerLock, 1e-9)
	require.False(t, r.Safe())

	r = Report{}
	r.fill(measured{cost: cost{cpu: time.Second, allocs: 1}})
	_, err := json.Marshal(r)
	require.NoError(t, err, "NaN cannot be written")
	require.True(t, r.Safe())
	r.LeftoverKeys = 1
	require.False(t, r.Safe())
}

// A run with faults has more names too, beside the others.
func TestFaultReportNames(t *testing.T) {
	r := Report{ErrorsByKind: map[string]uint64{"OOM": 3}, FaultReport: &FaultReport{
		Faults: []FaultResult{{
			Fault: "oom:1@2s+3s", Action: "oom", Node: 1, FromS: 2, UntilS: 5,
			Error: "x",
		}}, KeysAtClose: 4,
	}}
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var names map[string]any
	require.NoError(t, json.Unmarshal(text, &names))
	require.Equal(t, map[string]any{"OOM": 3.0}, names["errors_by_kind"])
	require.Equal(t, []any{map[string]any{
		"fault": "oom:1@2s+3s", "action": "oom", "node": 1.0,
		"from_s": 2.0, "until_s": 5.0, "error": "x",
	}}, names["faults"])
	require.InDelta(t, 4, names["keys_at_close"], 0)
	var back Report
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, r, back)
}

// The names of the series are what other programs rely on as well; what is 0 in an interval is left
// out.
func TestSeriesNames(t *testing.T) {
	r := Report{Started: time.Unix(1e9, 0).UTC(), Series: &Series{
		StepS: 0.1,
		Intervals: []Interval{{
			AtS: 0.2, LengthS: 0.1, AcquireMs: Spread{Calls: 1, P50: 2, P90: 3, P99: 4, Max: 5},
			Tally: Tally{
				Acquired: 1, Released: 2, Refused: 3, NoQuorum: 4, Expired: 5, Lost: 6,
				Errors: 7, Extended: 8,
			},
		}},
		AcquireHistogram: []Bucket{{FromMs: 1, ToMs: 2, Calls: 3}},
		Nodes: []NodeSeries{{
			Node: "a:1", Flushes: 3, Operations: 4, Connects: 1, Disconnects: 1,
			Failures:    map[string]uint64{"timeout": 2},
			FlushesEach: []uint64{3}, FlushP50MsEach: []float64{1}, FlushP99MsEach: []float64{2},
			FailuresEach: []uint64{2},
		}},
	}}
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var back Report
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, r, back)
	var names struct {
		Series struct {
			Intervals []map[string]any `json:"intervals"`
			Nodes     []map[string]any `json:"nodes"`
		} `json:"series"`
	}
	require.NoError(t, json.Unmarshal(text, &names))
	require.ElementsMatch(t, []string{
		"at_s", "length_s", "acquired", "released", "refused", "no_quorum", "expired", "lost",
		"errors", "extended", "acquire_ms",
	}, slices.Collect(maps.Keys(names.Series.Intervals[0])))
	require.ElementsMatch(t, []string{
		"node", "flushes", "operations", "connects", "disconnects", "flush_ms", "failures",
		"flushes_each", "flush_p50_ms_each",
		"flush_p99_ms_each", "failures_each",
	}, slices.Collect(maps.Keys(names.Series.Nodes[0])))
}
