package bench

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/bench/series"
)

// requireSum requires that a series is gapless and bounded, and adds up to the totals of its
// report.
func requireSum(t *testing.T, r *Report) {
	t.Helper()
	require.NotNil(t, r.Series)
	require.NotEmpty(t, r.Series.Intervals)
	require.LessOrEqual(t, len(r.Series.Intervals), 240)
	var sum series.Tally
	end, acquires, releases := 0.0, uint64(0), uint64(0)
	for _, i := range r.Series.Intervals {
		require.InDelta(t, end, i.AtS, 1e-6)
		require.LessOrEqual(t, i.LengthS, 1.5*r.Series.StepS+1e-6)
		sum.Add(i.Tally)
		end = i.AtS + i.LengthS
		acquires, releases = acquires+i.AcquireMs.Calls, releases+i.ReleaseMs.Calls
		require.LessOrEqual(t, i.AcquireMs.Max, r.AcquireMs.Max*1.001)
	}
	require.InDelta(t, r.DurationS, end, 1e-6)
	require.Equal(t, series.Tally{
		Acquired: r.Acquired, Released: r.Released, Refused: r.Refused, NoQuorum: r.NoQuorum,
		Expired: r.Expired, Lost: r.Lost, Errors: r.Errors, Extended: sum.Extended,
	}, sum)
	require.Equal(t, acquires, callsIn(r.Series.AcquireHistogram))
	require.Equal(t, releases, callsIn(r.Series.ReleaseHistogram))
	if r.Scenario == Hold {
		require.Positive(t, sum.Extended)
	}
	for _, n := range r.Series.Nodes {
		require.Len(t, n.FlushesEach, len(r.Series.Intervals))
		require.Equal(t, n.Flushes, total(n.FlushesEach))
		failed := uint64(0)
		for _, count := range n.Failures {
			failed += count
		}
		require.Equal(t, failed, total(n.FailuresEach))
	}
}

func total(list []uint64) (sum uint64) {
	for _, n := range list {
		sum += n
	}
	return sum
}

func callsIn(list []series.Bucket) (calls uint64) {
	for _, b := range list {
		calls += b.Calls
	}
	return calls
}

// Goal: in every scenario the intervals add up to what the report has for the whole run, and so
// does what each node did.
func TestSeries_AddsUpInEveryScenario(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			if s == Hold {
				skipIfShort(t) // it waits for extensions
			}
			_, cfg := shared(t, brief(s))
			cfg.Clients, cfg.TTL = 2, 3*time.Second
			registry := prometheus.NewRegistry()
			cfg.Metrics = registry
			r, err := runUntilTrue(t, cfg, func(elapsed time.Duration, granted uint64) bool {
				const extensions = "lockpipe_extensions_total"
				return elapsed > 300*time.Millisecond && granted >= 50 &&
					(s != Hold || counted(t, registry, extensions, "confirmed") > 0)
			})
			require.NoError(t, err)
			require.WithinDuration(t, time.Now(), r.Started, time.Minute)
			requireSum(t, r)
			require.Len(t, r.Series.Nodes, 3)
			for _, n := range r.Series.Nodes {
				require.NotZero(t, n.Flushes)
				require.NotEmpty(t, n.Node)
				require.NotZero(t, n.FlushMs.Calls)
				require.Positive(t, n.FlushMs.P99)
			}
			require.Equal(t, cfg.hasWaits(), callsIn(r.Series.WaitHistogram) > 0)
		})
	}
}

// Goal: a node that refuses everything is reported with its failures, and the others without any of
// that kind.
func TestSeries_ShowsWhichNodeFailed(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	cfg := withFaults(t, Single, "oom:2@300ms+1h")
	r, err := runUntilCounted(t, "lockpipe_node_failures_total", `"server"`, cfg)
	require.NoError(t, err)
	requireSum(t, r)
	require.Equal(t, "oom", r.Faults[0].Action)
	require.Equal(t, 2, r.Faults[0].Node)
	require.NotZero(t, r.Series.Nodes[1].Failures["server"])
	for i, n := range r.Series.Nodes {
		if i != 1 {
			require.Zero(t, n.Failures["server"], n.Node)
		}
	}
}

// Goal: a call belongs to the interval in which it returned. In an open loop its latency counts
// from when it was due.
func TestSeries_HasCallsAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig(Single)
		cfg.Callers, cfg.Rate, cfg.Duration = 1, 100, 1995*time.Millisecond
		failing := errors.New("no such thing")
		start := time.Now()
		m := newVirtualLoad(cfg, func(int) locker {
			return &fakeLocker{
				cost: 10 * time.Millisecond, ttl: time.Minute,
				grant: func([]string) error {
					if at := time.Since(start); at > 500*time.Millisecond &&
						at < 700*time.Millisecond {
						return failing
					}
					return nil
				},
			}
		}).run(t.Context())
		r := &Report{Scenario: Single}
		r.fill(m)
		requireSum(t, r)
		require.InDelta(t, 0.1, r.Series.StepS, 0)
		each := r.Series.Intervals
		require.EqualValues(t, 5, each[3].Acquired, "a round of 20 ms")
		require.Zero(t, each[3].Errors)
		require.Zero(t, each[5].Acquired)
		require.EqualValues(t, 1, each[5].Released, "acquired before, released at 500 ms")
		require.EqualValues(t, 9, each[5].Errors, "at 510, 520 ... 590 ms")
		require.Greater(t, each[15].AcquireMs.P50, each[3].AcquireMs.P50+400,
			"calls are ever later")
		require.Equal(t, series.Spread{}, each[6].AcquireMs)
	})
}
