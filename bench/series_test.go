package bench

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// requireSum requires that a series is gapless, bounded, and adds up to the totals of its report.
func requireSum(t *testing.T, r *Report) {
	t.Helper()
	require.NotNil(t, r.Series)
	require.NotEmpty(t, r.Series.Intervals)
	require.LessOrEqual(t, len(r.Series.Intervals), maxIntervals)
	var sum Tally
	end, acquires, releases := 0.0, uint64(0), uint64(0)
	for _, i := range r.Series.Intervals {
		require.InDelta(t, end, i.AtS, 1e-6)
		require.LessOrEqual(t, i.LengthS, 1.5*r.Series.StepS+1e-6)
		sum.add(i.Tally)
		end = i.AtS + i.LengthS
		acquires, releases = acquires+i.AcquireMs.Calls, releases+i.ReleaseMs.Calls
		require.LessOrEqual(t, i.AcquireMs.Max, r.AcquireMs.Max*1.001)
	}
	require.InDelta(t, r.DurationS, end, 1e-6)
	extended := sum.Extended
	sum.Extended = 0
	require.Equal(t, Tally{
		Acquired: r.Acquired, Released: r.Released, Refused: r.Refused, NoQuorum: r.NoQuorum,
		Expired: r.Expired, Lost: r.Lost, Errors: r.Errors,
	}, sum)
	require.Equal(t, acquires, callsIn(r.Series.AcquireHistogram))
	require.Equal(t, releases, callsIn(r.Series.ReleaseHistogram))
	if r.Scenario == Hold {
		require.Positive(t, extended)
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

func callsIn(list []Bucket) (calls uint64) {
	for _, b := range list {
		calls += b.Calls
	}
	return calls
}

// runUntilExtended runs for some intervals until so many locks were granted, and in the scenario
// Hold until leases were extended, however long that takes.
func runUntilExtended(t *testing.T, cfg Config) (*Report, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	registry := prometheus.NewRegistry()
	cfg.Duration, cfg.Metrics = time.Hour, registry
	cfg.Progress = func(elapsed time.Duration, granted uint64) {
		if elapsed > 3*steps[0] && granted >= 50 && (cfg.Scenario != Hold ||
			extensions(t, registry) > 0) {
			cancel()
		}
	}
	return Run(ctx, cfg)
}

// extensions is how many were confirmed.
func extensions(t *testing.T, registry *prometheus.Registry) float64 {
	return counted(t, registry, "lockpipe_extensions_total", "confirmed")
}

// counted is the sum of a metric for a label.
func counted(t *testing.T, registry *prometheus.Registry, name, label string) (sum float64) {
	families, err := registry.Gather()
	assert.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && strings.Contains(m.String(), label) {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// runUntilCounted runs until the Clients have counted this, however long that takes.
func runUntilCounted(t *testing.T, name, label string, cfg Config) (*Report, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	registry := prometheus.NewRegistry()
	cfg.Duration, cfg.Metrics = time.Hour, registry
	cfg.Progress = func(time.Duration, uint64) {
		if counted(t, registry, name, label) > 0 {
			cancel()
		}
	}
	return Run(ctx, cfg)
}

// In every scenario the intervals add up to what the report says of the whole run, and so does what
// each node did.
func TestSeriesAddsUpInEveryScenario(t *testing.T) {
	for _, s := range []Scenario{Single, Batch, Each, Hot, Hold} {
		t.Run(string(s), func(t *testing.T) {
			cfg := brief(s)
			cfg.Clients, cfg.TTL = 2, 3*time.Second
			r, err := runUntilExtended(t, cfg)
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
			require.Equal(t, s == Hot, callsIn(r.Series.WaitHistogram) > 0)
		})
	}
}

// A node that refuses everything is told with its failures, and the others without any of that
// kind.
func TestSeriesTellsWhichNodeFailed(t *testing.T) {
	cfg := stricken(t, Single, "oom:2@300ms+1h")
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

// However long a run lasts, there are no more than maxIntervals, nothing is lost when intervals
// become one, and each count stays at its time.
func TestSeriesOfALongRunIsBounded(t *testing.T) {
	for _, duration := range []time.Duration{
		0, time.Millisecond, 24 * time.Second, 24*time.Second + 1, time.Minute, time.Hour,
		100 * time.Hour, maxDuration + time.Hour,
	} {
		s := newSeries()
		c, acquired := &counts{}, &atomic.Uint64{}
		one := &tab{series: s, counts: c, acquired: acquired}
		const calls = 10_000
		for n := range calls {
			one.turn(s.start.Add(duration / calls * time.Duration(n)))
			acquired.Add(1)
			c.released++
			one.acquire.record(time.Duration(n) * time.Microsecond)
			require.LessOrEqual(t, len(s.intervals), maxIntervals)
		}
		one.hand()
		told := s.report(duration)
		r := &Report{
			DurationS: duration.Seconds(), Acquired: calls, Released: calls,
			AcquireMs: Latency{Max: calls}, Series: told,
		}
		requireSum(t, r)
		require.Equal(t, uint64(calls), callsIn(told.AcquireHistogram))
		if duration > time.Second {
			require.Greater(t, len(told.Intervals), maxIntervals/7,
				"and no fewer than are worth a look, %v", duration)
			even := calls * told.StepS / duration.Seconds()
			for _, i := range told.Intervals[:len(told.Intervals)-1] {
				require.InDelta(t, even, i.Acquired, 2+even/50)
			}
		}
	}
}

// A caller notes what it did in the interval in which the call returned, and in an open loop
// latency counts from when the call was due.
func TestSeriesHasCallsAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default(Single)
		cfg.Callers, cfg.Rate, cfg.Duration = 1, 100, 1995*time.Millisecond
		failing := errors.New("no such thing")
		start := time.Now()
		m := newVirtualLoad(cfg, func(int) taker {
			return &fakeTaker{
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
		require.Equal(t, Spread{}, each[6].AcquireMs)
	})
}

// What the Clients count between two looks is in the interval of the first one, the rest is in the
// last.
func TestSeriesFollowsTheClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeries()
		s.start = time.Now()
		var extended atomic.Uint64
		stop := s.follow(func() look {
			n := extended.Load()
			return look{extended: n, nodes: []nodeLook{{
				address: "a", flushes: 2 * n,
				failures: lockpipe.NodeFailures{Timeout: n},
			}}}
		})
		for _, n := range []uint64{3, 5, 7} {
			extended.Add(n)
			pass(100 * time.Millisecond)
			synctest.Wait()
		}
		extended.Add(1)
		stop()
		told := s.report(time.Since(s.start) + 60*time.Millisecond)
		require.Len(t, told.Intervals, 4)
		for i, want := range []uint64{3, 5, 7, 1} {
			require.Equal(t, want, told.Intervals[i].Extended)
			require.Equal(t, 2*want, told.Nodes[0].FlushesEach[i])
			require.Equal(t, want, told.Nodes[0].FailuresEach[i])
		}
		require.Equal(t, map[string]uint64{"timeout": 16}, told.Nodes[0].Failures)
	})
}

// A look is at all Clients, node by node, and what came of it since an earlier look is told.
func TestLooksAddUpTheClients(t *testing.T) {
	nodes := lockpipetest.StartT(t, 3)
	var clients []*lockpipe.Client
	for range 2 {
		client, err := lockpipe.New(lockpipe.Config{
			Nodes: nodes.URLs(), MaxTTL: time.Minute,
			NodeTimeout: 5 * time.Second, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		clients = append(clients, client)
		require.NoError(t, takeOne(t.Context(), client, "key"))
	}
	first := lookAt(clients)()
	for _, client := range clients {
		lease, err := client.Acquire(t.Context(), "key")
		require.NoError(t, err)
		require.NoError(t, lease.Extend(t.Context(), 20*time.Second))
		require.NoError(t, lease.Release(t.Context()))
	}
	// Nothing is counted any more.
	require.NoError(t, closeClients(t.Context(), clients, time.Minute))
	now := lookAt(clients)()
	require.EqualValues(t, 2, now.extended-first.extended)
	require.Len(t, now.nodes, 3)
	for i, n := range now.nodes {
		a, b := clients[0].Nodes()[i], clients[1].Nodes()[i]
		require.Equal(t, a.Addr, n.address)
		require.NotZero(t, b.Stats.Flushes)
		require.Equal(t, a.Stats.Flushes+b.Stats.Flushes, n.flushes)
		require.Equal(t, a.Stats.Operations+b.Stats.Operations, n.operations)
		require.Equal(t, a.Stats.Connects+b.Stats.Connects, n.connects)
		require.Equal(t, a.Stats.Latency.Plus(b.Stats.Latency), n.trips)
		since := n.since(first.nodes[i])
		require.Equal(t, n.flushes-first.nodes[i].flushes, since.flushes)
		require.Equal(t, n.trips, since.trips.Plus(first.nodes[i].trips))
	}
}
