package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// brief is a short run with few callers on nodes that it starts.
func brief(s Scenario) Config {
	cfg := Default(s)
	cfg.Nodes, cfg.Callers, cfg.Duration, cfg.Seed = "local:3", 8, 200*time.Millisecond, 1
	if s == Hot {
		cfg.Keys = 2
	}
	if s == Hold {
		cfg.Leases = 50
	}
	if cfg.perCall() > 1 {
		cfg.Keys, cfg.Batch = 1000, 10
	}
	return cfg
}

// runUntil runs until so many locks were granted, however long that takes: how many a machine
// grants in a given time is not known.
func runUntil(t *testing.T, locks uint64, cfg Config) (*Report, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg.Duration = time.Hour
	cfg.Progress = func(_ time.Duration, granted uint64) {
		if granted >= locks {
			cancel()
		}
	}
	return Run(ctx, cfg)
}

// requireSound requires what holds for every run in which no node failed.
func requireSound(t *testing.T, r *Report) {
	t.Helper()
	require.NotZero(t, r.Acquired)
	require.Equal(t, r.Acquired, r.Released+r.Expired+r.Lost, "every lease ends in one way: %+v", r)
	require.Zero(t, r.Violations)
	require.Zero(t, r.LeftoverKeys)
	require.Zero(t, r.Errors, r.FirstError)
	require.True(t, r.Safe())
}

// Every scenario, with one Client and with several, takes locks, gives every one of them back, and
// leaves neither keys nor goroutines.
func TestRunIsSoundInEveryScenario(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, s := range []Scenario{Single, Batch, Each, Hot, Hold} {
		for _, clients := range []int{1, 3} {
			cfg := brief(s)
			cfg.Clients = clients
			r, err := runUntil(t, 50, cfg)
			require.NoError(t, err)
			requireSound(t, r)
			require.Equal(t, s, r.Scenario)
			require.Equal(t, 3, r.Nodes)
			require.Equal(t, clients, r.Config.Clients)
			require.NotEmpty(t, r.Version)
			require.Positive(t, r.LocksPerS)
			require.Positive(t, r.AcquireMs.P50)
			require.Positive(t, r.ReleaseMs.Max)
			require.Positive(t, r.AllocsPerLock)
			require.GreaterOrEqual(t, r.OpsPerFlush, 1.0)
		}
	}
}

// Nodes in this process do as well, and the report says that it was those.
func TestRunOnNodesInThisProcess(t *testing.T) {
	cfg := brief(Single)
	cfg.Nodes = "inprocess:3"
	r, err := runUntil(t, 1, cfg)
	require.NoError(t, err)
	requireSound(t, r)
	require.Equal(t, "in-process", r.Backend)
	require.Equal(t, "inprocess:3", r.Config.Nodes)
}

// An open loop makes the calls of its timetable on real nodes too.
func TestRunAtARate(t *testing.T) {
	cfg := brief(Single)
	cfg.Rate = 500
	r, err := runUntil(t, 50, cfg)
	require.NoError(t, err)
	requireSound(t, r)
	require.LessOrEqual(t, float64(r.Acquired+r.Refused+r.NoQuorum+r.Unserved),
		cfg.Rate*r.DurationS+1, "more than were due")
}

// A lease that runs out while it is held is expired, and neither lost, left over nor a violation.
func TestRunHoldsBeyondTheTTL(t *testing.T) {
	cfg := brief(Hot)
	cfg.TTL, cfg.Hold = time.Second, 1100*time.Millisecond
	// The end of the run cuts short what is held then.
	r, err := runUntil(t, uint64(cfg.Keys)+1, cfg)
	require.NoError(t, err)
	requireSound(t, r)
	require.NotZero(t, r.Expired)
}

// With automatic extension a lease outlives its TTL, in every scenario.
func TestRunExtendsBeyondTheTTL(t *testing.T) {
	for _, s := range []Scenario{Single, Batch, Each, Hot} {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			cfg := brief(s)
			cfg.TTL, cfg.Hold, cfg.AutoExtend = 3*time.Second, 3500*time.Millisecond, time.Minute
			cfg.Duration = 3600 * time.Millisecond // one whole round
			r, err := Run(t.Context(), cfg)
			require.NoError(t, err)
			requireSound(t, r)
			require.Zero(t, r.Expired)
			require.InDelta(t, 60_000, r.Config.AutoExtendMs, 0)
		})
	}
}

// external starts nodes that a run is to use as if they were somebody else's.
func external(t *testing.T, cfg Config) (*lockpipetest.Nodes, Config) {
	t.Helper()
	nodes := lockpipetest.StartT(t, 3)
	cfg.Nodes = nodes.URLs()[0] + "," + nodes.URLs()[1] + "," + nodes.URLs()[2]
	cfg.Prefix = "test:"
	return nodes, cfg
}

// onAll sends a command to every node.
func onAll(nodes *lockpipetest.Nodes, args ...string) error {
	var errs []error
	for i := range nodes.Len() {
		_, err := nodes.Do(i, args...)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// When ctx ends early the run ends, what is held is released, and the report is complete.
func TestRunEndsEarlyAndReports(t *testing.T) {
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
	keys, err := nodes.Keys(0, cfg.Prefix)
	require.NoError(t, err)
	require.Empty(t, keys)
}

// A key that is there after the run is found, whoever left it, and counted on each node.
func TestRunFindsLeftoverKeys(t *testing.T) {
	nodes, cfg := external(t, brief(Single))
	require.NoError(t, onAll(nodes, "SET", cfg.Prefix+"stray", "x"))
	require.NoError(t, onAll(nodes, "SET", "another:stray", "x"))
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, 3, r.LeftoverKeys)
	require.False(t, r.Safe())
}

// When the nodes forget a lock that is held, so that another Client is granted it as well, that is
// a violation.
func TestRunFindsViolations(t *testing.T) {
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

// The run's own keys carry its prefix, and nothing else of it stays on external nodes under that
// prefix.
func TestRunsDoNotMeet(t *testing.T) {
	_, cfg := external(t, brief(Single))
	cfg.Prefix = ""
	first, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	second, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.NotEqual(t, first.Config.Prefix, second.Config.Prefix)
	require.Zero(t, first.LeftoverKeys+second.LeftoverKeys)
}

// Nodes that do not grant anything are an error at the start, not a run full of failures.
func TestRunNeedsNodesThatGrant(t *testing.T) {
	nodes, cfg := external(t, brief(Single))
	require.NoError(t, nodes.Kill(0))
	require.NoError(t, nodes.Kill(1))
	// Instead of readyTimeout, and time for a try.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	r, err := Run(ctx, cfg)
	require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
	require.Nil(t, r)
}

// A node that cannot be searched after the run makes the result uncertain, and the run says so
// beside its report.
func TestRunTellsOfANodeItCouldNotSearch(t *testing.T) {
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

// With fencing every scenario is as sound, and every lock has a fence.
func TestRunWithFencing(t *testing.T) {
	for _, s := range []Scenario{Single, Batch, Each, Hot, Hold} {
		nodes, cfg := external(t, brief(s))
		cfg.Clients, cfg.Fencing = 2, true
		r, err := runUntil(t, 50, cfg)
		require.NoError(t, err)
		requireSound(t, r)
		require.Zero(t, r.FenceRegressions)
		require.True(t, r.Config.Fencing)
		fences, err := nodes.Keys(0, "lockpipe:fence:"+cfg.Prefix)
		require.NoError(t, err)
		require.NotEmpty(t, fences, "%s", s)
	}
}
