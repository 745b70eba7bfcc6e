package bench

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/bench/process"
)

// allNames are all names in the JSON of a Report, by the object that they are in. Other programs
// rely on them.
const allNames = `
report:
  acquire_ms acquired allocs_per_lock allocs_per_lock_with_nodes
  attempts_per_lock backend batches busiest_server_cpu_share
  busiest_server_cpu_us_per_lock client_cpu_cores client_cpu_us_per_lock client_rss_bytes_per_lease
  cold config cpu_cores_with_nodes cpu_us_per_lock_with_nodes
  dead duration_s errors errors_by_kind
  expired extensions_per_s faults fence_regressions
  first_dead first_error give_s goroutines_after
  goroutines_before goroutines_most handovers hot_busy
  hot_locks_per_s items_per_batch items_per_s keep_s
  keys_at_close leases least_share leftover_keys
  locks_per_caller_cv locks_per_s lost max_share
  max_wait_ms min_client_share min_share move
  no_quorum nodes nodes_note ops_per_flush
  refused release_ms released rss_bytes_per_lease_with_nodes
  samples scenario series split_votes
  started take_s unanswered unserved
  version violations wait_ms
report.acquire_ms:
  max mean p50 p90
  p99 p999
report.cold:
  locks_per_s max_share max_wait_ms min_share
  wait_ms
report.cold.wait_ms:
  max mean p50 p90
  p99 p999
report.config:
  auto_extend_ms batch callers clients
  cold duration_s fault_seed faults
  fencing groups hold_ms hot
  keys nodes others prefix
  rate seed ttl_ms work_ms
report.errors_by_kind:
  x
report.faults:
  action error fault from_s
  node until_s
report.move:
  both_p99_over_old_p99 calls failed phases
  replaced
report.move.phases:
  failed from_s locks locks_per_s
  phase release_ms until_s wait_ms
report.move.phases.release_ms:
  max mean p50 p90
  p99 p999
report.move.phases.wait_ms:
  max mean p50 p90
  p99 p999
report.release_ms:
  max mean p50 p90
  p99 p999
report.series:
  acquire_histogram intervals nodes release_histogram
  step_s wait_histogram
report.series.acquire_histogram:
  calls from_ms to_ms
report.series.intervals:
  acquire_ms acquired at_s errors
  expired extended length_s lost
  no_quorum refused release_ms released
  wait_ms
report.series.intervals.acquire_ms:
  calls max p50 p90
  p99
report.series.intervals.release_ms:
  calls max p50 p90
  p99
report.series.intervals.wait_ms:
  calls max p50 p90
  p99
report.series.nodes:
  connects disconnects failures failures_each
  flush_ms flush_p50_ms_each flush_p99_ms_each flushes
  flushes_each node operations
report.series.nodes.failures:
  x
report.series.nodes.flush_ms:
  calls max p50 p90
  p99
report.series.release_histogram:
  calls from_ms to_ms
report.series.wait_histogram:
  calls from_ms to_ms
report.wait_ms:
  max mean p50 p90
  p99 p999
`

// alwaysNames are those that are there if everything is zero.
const alwaysNames = `
report:
  acquire_ms acquired backend config
  duration_s errors expired fence_regressions
  goroutines_after goroutines_before goroutines_most leftover_keys
  locks_per_s lost no_quorum nodes
  ops_per_flush refused release_ms released
  scenario unserved version violations
report.acquire_ms:
  max mean p50 p90
  p99 p999
report.config:
  auto_extend_ms batch callers clients
  duration_s groups hold_ms keys
  nodes prefix rate seed
  ttl_ms
report.release_ms:
  max mean p50 p90
  p99 p999
`

// namesIn returns the names in the JSON of a value, four a line below each object.
func namesIn(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	var decoded any
	require.NoError(t, json.Unmarshal(text, &decoded))
	found := make(map[string][]string)
	collectNames(decoded, "report", found)
	var lines strings.Builder
	for _, object := range slices.Sorted(maps.Keys(found)) {
		lines.WriteString("\n" + object + ":")
		for names := range slices.Chunk(found[object], 4) {
			lines.WriteString("\n  " + strings.Join(names, " "))
		}
	}
	return lines.String() + "\n"
}

// collectNames enters the names of an object, and of all objects in it.
func collectNames(v any, object string, found map[string][]string) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			collectNames(one, object, found)
		}
	case map[string]any:
		found[object] = slices.Sorted(maps.Keys(v))
		for name, one := range v {
			collectNames(one, object+"."+name, found)
		}
	}
}

// fillAll sets everything in a value to something that is not zero.
func fillAll(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillAll(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillAll(v.Index(0))
	case reflect.Map:
		key, one := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillAll(key)
		fillAll(one)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, one)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1e9, 0).UTC()))
			return
		}
		for i := range v.NumField() {
			fillAll(v.Field(i))
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	default:
		panic("no value for " + v.Type().String())
	}
}

// Goal: the JSON of a report has exactly these names, and reads back as the same report.
func TestReport_JSONNames(t *testing.T) {
	var r Report
	require.Equal(t, alwaysNames, namesIn(t, r))
	fillAll(reflect.ValueOf(&r).Elem())
	require.Equal(t, allNames, namesIn(t, r))
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var back Report
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, r, back)
}

// Goal: a lost lease is not safe in the scenario Hold alone, which is there to exclude it.
func TestReport_HoldIsSafeWithoutLostAndMissingLeases(t *testing.T) {
	require.True(t, (&Report{Lost: 1}).Safe())
	require.True(t, (&Report{HoldReport: &HoldReport{}}).Safe())
	require.False(t, (&Report{Lost: 1, HoldReport: &HoldReport{}}).Safe())
	require.False(t, (&Report{HoldReport: &HoldReport{Missing: 1}}).Safe())
	require.False(t, (&Report{LeftoverKeys: 1, HoldReport: &HoldReport{}}).Safe())
}

// Goal: rates and costs are per lock, and 0 in a run without any.
func TestReport_Fill(t *testing.T) {
	var r Report
	r.fill(measured{elapsed: 2 * time.Second, acquired: 100, used: process.Usage{
		CPU: time.Millisecond, Allocs: 250,
	}, violations: 3})
	require.InDelta(t, 50, r.LocksPerS, 1e-9)
	require.InDelta(t, 10, *r.ClientCPUUsPerLock, 1e-9)
	require.InDelta(t, 2.5, *r.AllocsPerLock, 1e-9)
	require.Nil(t, r.CPUUsPerLockWithNodes)
	require.Nil(t, r.AllocsPerLockWithNodes)
	require.False(t, r.Safe())

	r = Report{}
	r.fill(measured{used: process.Usage{CPU: time.Second, Allocs: 1}})
	text, err := json.Marshal(r)
	require.NoError(t, err, "NaN cannot be written")
	require.Contains(t, string(text), `"client_cpu_us_per_lock":0,`)
	require.True(t, r.Safe())
	r.LeftoverKeys = 1
	require.False(t, r.Safe())
}

// Goal: what nodes in this process used is never called the Clients'.
func TestReport_NodesInThisProcessAreIncluded(t *testing.T) {
	r := Report{Backend: "in-process"}
	r.fill(measured{acquired: 100, used: process.Usage{CPU: time.Millisecond, Allocs: 250}})
	require.InDelta(t, 10, *r.CPUUsPerLockWithNodes, 1e-9)
	require.InDelta(t, 2.5, *r.AllocsPerLockWithNodes, 1e-9)
	memory, cores := 3210.0, 0.0
	h := HoldReport{ClientRSSBytesPerLease: &memory, ClientCPUCores: &cores}
	h.includeNodes()
	require.Equal(t, HoldReport{RSSBytesPerLeaseWithNodes: &memory, CPUCoresWithNodes: &cores}, h)
	r.HoldReport = &h
	text, err := json.Marshal(r)
	require.NoError(t, err)
	for _, name := range []string{`"client_`, `"allocs_per_lock"`} {
		require.NotContains(t, string(text), name)
	}
	require.Contains(t, string(text), `"cpu_cores_with_nodes":0,`)
}
