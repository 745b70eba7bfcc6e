package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// Goal: with groups every scenario is as sound, and each group has a part of the keys.
func TestGroups_EveryScenarioIsSound(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			cfg := brief(s)
			cfg.Nodes, cfg.Groups, cfg.Clients, cfg.Fencing = "inprocess:4", 4, 2, true
			// So many that each group has some for sure.
			cfg.Keys, cfg.Prefix, cfg.Rate = max(cfg.Keys, 100), "test:", 1000
			if s == Move {
				cfg.Nodes = "inprocess:8"
			}
			cfg.Leases = 100
			r, err := runUntil(t, 100, cfg)
			require.NoError(t, err)
			requireSound(t, r)
			require.Zero(t, r.FenceRegressions)
			require.Equal(t, 4, r.Config.Groups)
			require.Len(t, r.Series.Nodes, 4)
			for _, n := range r.Series.Nodes {
				require.NotZero(t, n.Operations, "%s: %v", s, r.Series.Nodes)
			}
			if s == Hold {
				require.Zero(t, r.Missing, r.FirstMissing)
			}
		})
	}
}

// Goal: held leases are looked up on the group of their key.
func TestGroups_SamplesOfHeldLeases(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	cfg := briefHold()
	cfg.Nodes, cfg.Groups = "inprocess:2", 2
	cfg.Duration = 4 * time.Second // so that a busy machine has time for a sample
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	requireSound(t, r)
	require.NotZero(t, r.Samples)
	require.Zero(t, r.Missing, r.FirstMissing)
}

// Goal: keys left on a node of any group are found.
func TestGroups_FindLeftoverKeys(t *testing.T) {
	t.Parallel()
	started := servertest.Start(t, 4)
	cfg := brief(Single)
	cfg.Nodes, cfg.Groups, cfg.Prefix = strings.Join(started.URLs(), ","), 2, "test:"
	_, err := started.Do(3, "SET", cfg.Prefix+"stray", "x")
	require.NoError(t, err)
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, 1, r.LeftoverKeys)
	require.False(t, r.Safe())
}

// Goal: with random faults in each group the run stays sound.
func TestGroups_WithFaults(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	cfg := brief(Single)
	lockpipetest.RequireRedis(t)
	cfg.Nodes, cfg.Groups, cfg.Rate, cfg.Faults = "local:6", 2, 200, "every:200ms"
	cfg.Duration, cfg.TTL, cfg.nodeTimeout = 1500*time.Millisecond, time.Second, 0
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.NotEmpty(t, r.Faults)
	require.NotZero(t, r.Acquired)
	require.Zero(t, r.Violations)
	require.Zero(t, r.LeftoverKeys)
}

// Goal: servers that the run starts say how much CPU time the busiest of them used, and others do
// not.
func TestServers_TheBusiestIsInTheReport(t *testing.T) {
	t.Parallel()
	lockpipetest.RequireRedis(t)
	for text, known := range map[string]bool{"local:3": true, "inprocess:3": false} {
		cfg := brief(Single)
		cfg.Nodes = text
		r, err := runUntil(t, 100, cfg)
		require.NoError(t, err)
		require.Equal(t, known, r.ServerCPUUsPerLock > 0, text)
		require.InDelta(t, r.ServerCPUUsPerLock*r.LocksPerS/1e6, r.ServerCPUShare, 1e-6)
	}
}
