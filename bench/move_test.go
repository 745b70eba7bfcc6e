package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/bench/fleet"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// briefMove is a short move.
func briefMove() Config {
	cfg := brief(Move)
	cfg.Nodes, cfg.Clients, cfg.Callers, cfg.Keys = "inprocess:6", 3, 12, 3
	// A busy machine has some seconds more than the move takes. The callers leave it time: most of
	// them wait, and the keys change hands seldom.
	cfg.TTL, cfg.Duration, cfg.nodeTimeout = 2*time.Second, 18*time.Second, 0
	cfg.Hold = 100 * time.Millisecond
	return cfg
}

// Goal: the fleet moves while callers wait, hold and release. No key has two holders, no call
// fails, nothing is left behind, and the report has each phase.
func TestMove_IsSound(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	for _, groups := range []int{1, 3} {
		t.Run(fmt.Sprint(groups, " groups"), func(t *testing.T) {
			t.Parallel()
			cfg := briefMove()
			cfg.Groups, cfg.nodeTimeout = groups, cfg.TTL
			cfg.Prefix = "test:" // with which each group has some of the keys
			cfg.Keys *= groups
			r, err := Run(t.Context(), cfg)
			require.NoError(t, err)
			requireSound(t, r)
			m := r.Move
			require.Equal(t, 2*cfg.Clients, m.Replaced)
			require.Len(t, m.Phases, 5)
			require.Zero(t, m.Failed)
			require.Equal(t, r.Acquired+r.Released+r.Expired, m.Calls)
			locks, until := uint64(0), 0.0
			for _, p := range m.Phases {
				require.InDelta(t, until, p.FromS, 1e-9, "without a gap")
				locks, until = locks+p.Locks, p.UntilS
			}
			require.Equal(t, r.Acquired, locks)
			both := m.Phases[fleet.BothNeeded]
			require.GreaterOrEqual(t, both.UntilS-both.FromS, cfg.TTL.Seconds(), "MaxTTL")
			require.Positive(t, both.WaitMs.P99)
			require.Positive(t, m.BothOverOld)
			require.Len(t, r.Series.Nodes, 6)
			for _, n := range r.Series.Nodes {
				require.NotZero(t, n.Operations)
			}
		})
	}
}

// Goal: the scenario fails if the Clients do not need both layouts in between.
func TestMove_WithoutBothLayoutsIsAViolation(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	cfg := briefMove()
	cfg.skipBoth, cfg.Hold = true, 300*time.Millisecond // far longer than a lock takes
	cfg.Duration = movePhases * cfg.TTL                 // half of which it needs
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.NotZero(t, r.Violations)
	require.False(t, r.Safe())
	require.Len(t, r.Move.Phases, 3, "old alone, rolling to new, new alone")
}

// Goal: with faults the fleet moves all the same, and exclusion holds.
func TestMove_WithFaults(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	lockpipetest.RequireRedis(t)
	cfg := briefMove()
	cfg.Nodes, cfg.Faults = "local:6", "freeze:1@800ms+1s,freeze:5@2s+1s"
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Len(t, r.Faults, 2)
	require.Len(t, r.Move.Phases, 5)
	require.Zero(t, r.Violations)
	require.Zero(t, r.LeftoverKeys)
}

// Goal: keys on the nodes of either layout are found after the run, also if it ends early.
func TestMove_FindsLeftoverKeysOfBothLayouts(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 6)
	cfg := briefMove()
	cfg.Nodes, cfg.Prefix = strings.Join(nodes.URLs(), ","), "test:"
	for _, i := range []int{0, 5} {
		_, err := nodes.Do(i, "SET", cfg.Prefix+"stray", "x")
		require.NoError(t, err)
	}
	r, err := runUntil(t, 1, cfg)
	require.NoError(t, err)
	require.Equal(t, 2, r.LeftoverKeys)
}

// Goal: what can't be moved is refused.
func TestMove_BadCombinationsAreConfigErrors(t *testing.T) {
	for _, tc := range []struct {
		field, value string
		set          func(*Config)
	}{
		{"Nodes", "local:5", func(c *Config) { c.Nodes = "local:5" }},
		{"Groups", "2", func(c *Config) { c.Groups = 2 }},
		{"Clients", "1", func(c *Config) { c.Clients = 1 }},
		{"Duration", "29s", func(c *Config) { c.Duration = 29 * time.Second }},
	} {
		cfg := DefaultConfig(Move)
		tc.set(&cfg)
		var wrong *ConfigError
		require.ErrorAs(t, cfg.Validate(), &wrong)
		require.Equal(t, tc.field, wrong.Field)
		require.Equal(t, tc.value, wrong.Value)
		require.NotEmpty(t, wrong.Remedy)
	}
	cfg := DefaultConfig(Move)
	cfg.Nodes, cfg.Groups, cfg.Duration = "local:12", 2, 30*time.Second
	require.NoError(t, cfg.Validate())
	require.True(t, slices.Contains(scenarios, Move))
}
