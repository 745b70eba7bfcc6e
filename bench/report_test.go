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
		"version", "scenario", "backend", "nodes", "config", "duration_s", "acquired", "released", "refused", "no_quorum",
		"expired", "lost", "errors", "first_error", "unserved", "violations", "leftover_keys", "locks_per_s", "acquire_ms",
		"release_ms", "client_cpu_us_per_lock", "allocs_per_lock", "ops_per_flush",
	}, slices.Collect(maps.Keys(report)))
	for _, name := range []string{"acquire_ms", "release_ms"} {
		latency, ok := report[name].(map[string]any)
		require.True(t, ok)
		require.ElementsMatch(t, []string{"p50", "p90", "p99", "p999", "max", "mean"}, slices.Collect(maps.Keys(latency)))
	}
}

// Rates and costs are per lock; a run without any has zeros rather than no numbers.
func TestReportFill(t *testing.T) {
	var r Report
	r.fill(measured{elapsed: 2 * time.Second, acquired: 100, cost: cost{cpu: time.Millisecond, allocs: 250}, violated: 3})
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
