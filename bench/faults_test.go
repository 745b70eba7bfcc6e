package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/bench/check"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// withFaults is a brief run on five servers with faults. Its Clients have the default timeout, so
// that they notice a node that does not answer. The load is small: the faults meet it all the time.
func withFaults(t *testing.T, s Scenario, list string) Config {
	t.Helper()
	lockpipetest.RequireRedis(t)
	cfg := brief(s)
	cfg.Nodes, cfg.TTL, cfg.Duration, cfg.nodeTimeout = "local:5", 2*time.Second,
		1500*time.Millisecond, 0
	cfg.Faults, cfg.FaultSeed, cfg.Rate = list, 7, 200
	return cfg
}

// requireFaults requires that all faults happened, none before its time, and that nothing broke a
// rule because of them.
func requireFaults(t *testing.T, r *Report, want ...string) {
	t.Helper()
	require.NotZero(t, r.Acquired)
	require.Zero(t, r.Violations)
	require.Zero(t, r.LeftoverKeys)
	var got []string
	for _, f := range r.Faults {
		require.Empty(t, f.Error, f.Fault)
		got = append(got, f.Fault)
		_, when, _ := strings.Cut(f.Fault, "@")
		start, length, _ := strings.Cut(when, "+")
		at, err := time.ParseDuration(start)
		if err != nil { // it has no time of its own
			continue
		}
		require.GreaterOrEqual(t, f.FromS, at.Seconds(), f.Fault)
		if lasts, err := time.ParseDuration(length); err == nil {
			require.GreaterOrEqual(t, f.UntilS, (at + lasts).Seconds(), f.Fault)
		}
	}
	require.ElementsMatch(t, want, got)
}

// Goal: each fault happens to its node while the load runs, in several scenarios. No key has two
// holders, and nothing is left.
func TestFaults_HappenUnderLoad(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	for _, s := range []Scenario{Single, Each, Hold} {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			list := []string{
				"freeze:1@100ms+700ms", "reset:2@200ms", "scriptflush:2@300ms",
				"busy:3@400ms+200ms", "oom:3@700ms+200ms",
				"readonly:1@900ms+300ms", "reset:1@1.25s",
			}
			cfg := withFaults(t, s, strings.Join(list, ","))
			cfg.Duration = 4 * time.Second // so that the last fault happens on a busy machine too
			r, err := Run(t.Context(), cfg)
			require.NoError(t, err)
			requireFaults(t, r, list...)
			require.Equal(t, strings.Join(list, ","), r.Config.Faults)
		})
	}
}

// Goal: demotions and failovers happen while the load runs, in several scenarios. No key has two
// holders, and nothing is left.
func TestFaults_RolesChangeUnderLoad(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	for _, s := range []Scenario{Single, Hold} {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			list := []string{"demote:1@100ms+300ms", "failover:2@100ms+600ms"}
			cfg := withFaults(t, s, strings.Join(list, ","))
			cfg.Duration = 4 * time.Second // as there
			r, err := Run(t.Context(), cfg)
			require.NoError(t, err)
			requireFaults(t, r, list...)
		})
	}
}

// Goal: the faults of a Redis Cluster happen while the load runs. No key has two holders, nothing
// is left, and no server that was deposed goes on.
func TestFaults_HappenInACluster_InRealTime(t *testing.T) {
	servertest.RealTime(t)
	for _, list := range [][]string{
		{"failover:1@100ms+500ms", "takeover:1@3s", "deposed:2@200ms+4s", "reshard:3@300ms+2s"},
		{"kill:1@100ms", "restart:1@500ms", "flush:2@1s", "freeze:3@200ms+2s", "kill:2@4s"},
	} {
		t.Run(list[0], func(t *testing.T) {
			cfg := withFaults(t, Single, strings.Join(list, ","))
			cfg.Nodes, cfg.Clients, cfg.TTL = "cluster:3", 2, time.Second
			cfg.Duration = 9 * time.Second // so that a new master votes
			r, err := Run(t.Context(), cfg)
			require.NoError(t, err)
			require.Equal(t, 3, r.Nodes)
			if list[0] == "kill:1@100ms" {
				list = append(list, "restart:2 at the end")
			}
			requireFaults(t, r, list...)
		})
	}
}

// Goal: faults after which a node has forgotten locks happen too. There is one caller, so no other
// one can be granted its locks.
func TestFaults_NodesAreWipedUnderLoad(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	cfg := withFaults(t, Single,
		"kill:1@200ms,restart:1@400ms,flush:2@600ms,restart:3@800ms,kill:4@1s")
	cfg.Callers, cfg.TTL, cfg.Duration = 1, 5*time.Second, 4*time.Second
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	requireFaults(t, r, "kill:1@200ms", "restart:1@400ms", "flush:2@600ms", "restart:3@800ms",
		"kill:4@1s", "restart:4 at the end")
}

// Goal: at the end of the run every fault is reverted, also on a majority, so that nothing is left.
// A run with faults leaves no goroutines.
func TestFaults_AreRevertedAtTheEnd(t *testing.T) {
	skipIfShort(t)
	cfg := withFaults(t, Single, "freeze:1@500ms+1h,readonly:2@500ms+1h,busy:3@500ms+1h,"+
		"oom:4@500ms+1h")
	cfg.Duration, cfg.goroutineTimeout = 2*time.Second, 0
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Zero(t, r.Violations)
	require.Zero(t, r.LeftoverKeys)
	require.LessOrEqual(t, r.GoroutinesAfter, r.GoroutinesBefore)
	require.Len(t, r.Faults, 4)
	for _, f := range r.Faults {
		require.Empty(t, f.Error)
		require.Less(t, f.UntilS, 30.0)
	}
}

// Goal: a majority of faulty nodes is reported by what was wrong on them.
func TestFaults_FailedCallsAreCountedByKind(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	cfg := withFaults(t, Single, "readonly:1@0s+1h,readonly:2@0s+1h,readonly:3@0s+1h")
	cfg.nodeTimeout = 5 * time.Second // so that no answer is late
	r, err := runUntilCounted(t, "lockpipe_calls_total", `"no_quorum"`, cfg)
	require.NoError(t, err)
	require.NotZero(t, r.NoQuorum)
	require.NotZero(t, r.ErrorsByKind["read-only"])
	require.Zero(t, r.LeftoverKeys)
}

// Goal: keys that end within the longest TTL and a second after a run with faults are reported, and
// are no leftovers. Keys that stay are.
func TestFaults_LeftoversOutliveTheTTL(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	node, err := check.ParseEndpoint(nodes.URLs()[0])
	require.NoError(t, err)
	set := func(args ...string) {
		_, err := nodes.Do(0, append([]string{"SET"}, args...)...)
		require.NoError(t, err)
	}
	search := func(ttl time.Duration, f *FaultReport) *Report {
		r := &Report{Config: ReportConfig{Prefix: "run:"}, FaultReport: f}
		require.NoError(t, r.search(t.Context(), Config{TTL: ttl}, []check.Endpoint{node}))
		return r
	}
	set("run:ending", "x", "PX", "300")
	r := search(time.Hour, &FaultReport{})
	require.Zero(t, r.LeftoverKeys)
	require.LessOrEqual(t, r.KeysAtClose, 1)
	set("run:ending", "x", "PX", "300")
	set("run:staying", "x")
	r = search(300*time.Millisecond, &FaultReport{})
	require.Equal(t, 1, r.LeftoverKeys)
	require.GreaterOrEqual(t, r.KeysAtClose, 1)
	require.Equal(t, 1, search(time.Hour, nil).LeftoverKeys, "without faults it does not wait")
}

// Goal: faults can't happen to nodes that the run does not start, or that are no processes.
func TestFaults_NeedServersOfTheRun(t *testing.T) {
	for _, nodes := range []string{"redis://localhost:1,localhost:2,localhost:3", "inprocess:3"} {
		cfg := DefaultConfig(Single)
		cfg.Nodes, cfg.Faults = nodes, "flush:1@1s"
		var wrong *ConfigError
		require.ErrorAs(t, cfg.Validate(), &wrong)
		require.Equal(t, "Faults", wrong.Field)
		require.Contains(t, wrong.Remedy, "local:5")
	}
}

// Goal: a Redis Cluster is one group of nodes, whether it is there or the run starts it.
func TestConfig_AClusterIsOneGroup(t *testing.T) {
	for _, nodes := range []string{"cluster:3", "redis://localhost:1?cluster=3"} {
		cfg := DefaultConfig(Single)
		cfg.Nodes = nodes
		require.NoError(t, cfg.Validate())
		cfg.Groups = 3
		var wrong *ConfigError
		require.ErrorAs(t, cfg.Validate(), &wrong)
		require.Equal(t, "Groups", wrong.Field)
		require.Contains(t, wrong.Remedy, "a Redis Cluster is one group")
	}
}

// Goal: a fault that can't be used is an error of the field Faults, with its text.
func TestFaults_AnErrorNamesTheField(t *testing.T) {
	cfg := DefaultConfig(Single)
	cfg.Faults = "flush:1@1s,melt:1@1s"
	var wrong *ConfigError
	require.ErrorAs(t, cfg.Validate(), &wrong)
	require.Equal(t, "Faults", wrong.Field)
	require.Equal(t, "melt:1@1s", wrong.Value)
	require.Contains(t, wrong.Remedy, `fault 2: no action is called "melt"`)
}
