package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/process"
)

// Goal: every scenario, with one Client and with several, takes locks, releases each of them, and
// leaves neither keys nor goroutines.
func TestRun_EveryScenarioIsSound(t *testing.T) {
	for _, s := range scenarios {
		for _, clients := range []int{1, 3} {
			_, cfg := shared(t, brief(s))
			nodes := 3
			if s == Move {
				clients, nodes = max(clients, 2), 6
			}
			cfg.Clients, cfg.goroutineTimeout = clients, 0
			r, err := runUntil(t, 50, cfg)
			require.NoError(t, err)
			requireSound(t, r)
			require.Equal(t, s, r.Scenario)
			require.Equal(t, nodes, r.Nodes)
			require.Equal(t, clients, r.Config.Clients)
			require.NotEmpty(t, r.Version)
			require.Positive(t, r.LocksPerS)
			require.Positive(t, r.AcquireMs.P50)
			require.Equal(t, s != Combine, r.ReleaseMs.Max > 0, "a batch releases in the background")
			require.Positive(t, *r.AllocsPerLock)
			require.Nil(t, r.AllocsPerLockWithNodes)
			require.GreaterOrEqual(t, r.OpsPerFlush, 1.0)
			require.LessOrEqual(t, r.GoroutinesAfter, r.GoroutinesBefore)
			require.Greater(t, r.GoroutinesMost, r.GoroutinesBefore)
		}
	}
}

// Goal: a run can use nodes in this process, and the report says so.
func TestRun_NodesInThisProcess(t *testing.T) {
	cfg := brief(Single)
	cfg.Nodes = "inprocess:3"
	r, err := runUntil(t, 1, cfg)
	require.NoError(t, err)
	requireSound(t, r)
	require.Equal(t, "in-process", r.Backend)
	require.True(t, r.InProcess())
	require.Equal(t, "inprocess:3", r.Config.Nodes)
	require.Contains(t, r.NodesNote, "as inprocess:3 asks.")
	require.Positive(t, *r.AllocsPerLockWithNodes)
	require.Nil(t, r.AllocsPerLock)
	require.Nil(t, r.ClientCPUUsPerLock)
	if process.CPUTime() > 0 {
		require.Positive(t, *r.CPUUsPerLockWithNodes)
	}
}

// Goal: an open loop makes the calls of its timetable on real nodes too.
func TestRun_AtARate(t *testing.T) {
	t.Parallel()
	cfg := brief(Single)
	cfg.Rate = 500
	r, err := runUntil(t, 50, cfg)
	require.NoError(t, err)
	requireSound(t, r)
	require.LessOrEqual(t, float64(r.Acquired+r.Refused+r.NoQuorum+r.Unserved),
		cfg.Rate*r.DurationS+1, "more than were due")
}

// Goal: a lease that runs out while it is held is expired. It is neither lost, left over nor a
// violation.
func TestRun_HoldsBeyondTheTTL(t *testing.T) {
	t.Parallel()
	cfg := brief(Hot)
	cfg.TTL, cfg.Hold = time.Second, 1100*time.Millisecond
	// The end of the run cuts short what is held then.
	r, err := runUntil(t, uint64(cfg.Keys)+1, cfg)
	require.NoError(t, err)
	requireSound(t, r)
	require.NotZero(t, r.Expired)
}

// Goal: with automatic extension a lease outlives its TTL, in every scenario.
func TestRun_ExtendsBeyondTheTTL(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	for _, s := range []Scenario{Single, Batch, Each, Hot} {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			_, cfg := shared(t, brief(s))
			cfg.TTL, cfg.Hold, cfg.AutoExtend = 5*time.Second, 5500*time.Millisecond, time.Minute
			cfg.Duration = 5600 * time.Millisecond // one whole round
			r, err := Run(t.Context(), cfg)
			require.NoError(t, err)
			requireSound(t, r)
			require.Zero(t, r.Expired)
			require.InDelta(t, 60_000, r.Config.AutoExtendMs, 0)
		})
	}
}

// Goal: if ctx ends early, the run ends, held keys are released, and the report is complete.
func TestRun_EndsEarlyAndReports(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	nodes, cfg := external(t, brief(Single))
	cfg.Duration, cfg.Hold = time.Hour, time.Hour
	cfg.Progress = func(_ time.Duration, locks uint64) {
		if locks > 0 {
			cancel()
		}
	}
	r, err := Run(ctx, cfg)
	require.NoError(t, err)
	requireSound(t, r)
	require.Equal(t, "external", r.Backend)
	require.False(t, r.InProcess())
	require.Empty(t, r.NodesNote)
	keys, err := nodes.Keys(0, cfg.Prefix)
	require.NoError(t, err)
	require.Empty(t, keys)
}

// Goal: any key that is there after the run is found, and counted on each node.
func TestRun_FindsLeftoverKeys(t *testing.T) {
	t.Parallel()
	nodes, cfg := external(t, brief(Single))
	require.NoError(t, onAll(nodes, "SET", cfg.Prefix+"stray", "x"))
	require.NoError(t, onAll(nodes, "SET", "another:stray", "x"))
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, 3, r.LeftoverKeys)
	require.False(t, r.Safe())
}

// Goal: if the nodes forget a lock that is held, so that another Client is granted it too, that is
// a violation.
func TestRun_FindsViolations(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	nodes, cfg := external(t, brief(Hot))
	cfg.Keys, cfg.Callers, cfg.Clients = 1, 2, 2
	cfg.Duration, cfg.Hold, cfg.TTL = time.Hour, time.Hour, time.Minute
	var deleted error
	cfg.Progress = func(_ time.Duration, locks uint64) {
		if locks == 2 || deleted != nil {
			cancel()
			return
		}
		deleted = onAll(nodes, "DEL", cfg.Prefix+"0")
	}
	r, err := Run(ctx, cfg)
	require.NoError(t, err)
	require.NoError(t, deleted)
	require.EqualValues(t, 2, r.Acquired)
	require.EqualValues(t, 1, r.Violations)
	require.False(t, r.Safe())
}

// Goal: each run has a prefix of its own, and leaves nothing under it on external nodes.
func TestRun_RunsDoNotMeet(t *testing.T) {
	t.Parallel()
	_, cfg := shared(t, brief(Single))
	first, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	second, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.NotEqual(t, first.Config.Prefix, second.Config.Prefix)
	require.Zero(t, first.LeftoverKeys+second.LeftoverKeys)
}

// Goal: nodes that do not grant anything are an error at the start, not a run full of failures.
func TestRun_NeedsNodesThatGrant(t *testing.T) {
	t.Parallel()
	nodes, cfg := external(t, brief(Single))
	require.NoError(t, nodes.Kill(0))
	require.NoError(t, nodes.Kill(1))
	// Instead of readyTimeout, and time for a try.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r, err := Run(ctx, cfg)
	require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
	require.Nil(t, r)
}

// Goal: if a node can't be searched after the run, the run returns an error with its report.
func TestRun_ReportsANodeItCouldNotSearch(t *testing.T) {
	t.Parallel()
	nodes, cfg := external(t, brief(Single))
	_, err := Run(t.Context(), cfg) // on their first use the nodes wait for each other
	require.NoError(t, err)
	require.NoError(t, nodes.Kill(2))
	r, err := runUntil(t, 1, cfg)
	require.ErrorContains(t, err, "leftover keys")
	require.NotNil(t, r)
	require.NotZero(t, r.Acquired)
	require.Zero(t, r.Violations)
}

// Goal: with fencing every scenario is as sound, and every lock has a fence.
func TestRun_WithFencing(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			nodes, cfg := shared(t, brief(s))
			cfg.Clients, cfg.Fencing, cfg.Prefix = 2, true, "fencing:"+string(s)+":"
			r, err := runUntil(t, 50, cfg)
			require.NoError(t, err)
			requireSound(t, r)
			require.Zero(t, r.FenceRegressions)
			require.True(t, r.Config.Fencing)
			fences, err := nodes.Do(0, "ZCARD", "lockpipe:fences")
			require.NoError(t, err)
			require.Positive(t, fences, "%s", s)
		})
	}
}
