package bench

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// Goal: no run leaves a goroutine.
func TestMain(m *testing.M) {
	if nodes := os.Getenv(leaderVar); nodes != "" {
		if err := leaderMain(nodes); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	servertest.RunMoreAtOnce(3)
	goleak.VerifyTestMain(closing{m}, goleak.IgnoreCurrent())
}

// closing closes the nodes of all tests behind the last of them.
type closing struct{ *testing.M }

func (m closing) Run() int {
	code := m.M.Run()
	if nodes := sharedNodes.Load(); nodes != nil {
		if err := nodes.Close(); err != nil {
			panic(err)
		}
	}
	return code
}

// sharedNodes are those of shared, once a test has used them.
var (
	sharedNodes atomic.Pointer[lockpipetest.Nodes]
	startShared sync.Mutex
)

// shared is external with nodes that all such tests share: they neither break a node nor look for
// what others leave. Each run has a prefix of its own.
func shared(t *testing.T, cfg Config) (*lockpipetest.Nodes, Config) {
	t.Helper()
	skipIfShort(t)
	startShared.Lock()
	defer startShared.Unlock()
	nodes := sharedNodes.Load()
	if nodes == nil {
		var err error
		nodes, err = lockpipetest.Start(6)
		require.NoError(t, err)
		sharedNodes.Store(nodes)
	}
	cfg.Nodes = strings.Join(nodes.URLs()[:3*cfg.layouts()], ",")
	return nodes, cfg
}

// brief is a short run with few callers on nodes that it starts. Its Clients are patient, so that
// no node is too late on a busy machine. It does not wait for goroutines, which other tests have
// too: a test of these sets goroutineTimeout.
func brief(s Scenario) Config {
	cfg := DefaultConfig(s)
	cfg.Nodes, cfg.Callers, cfg.Duration, cfg.Seed = "local:3", 8, 200*time.Millisecond, 1
	cfg.nodeTimeout, cfg.goroutineTimeout = 5*time.Second, time.Millisecond
	if s == Hot {
		cfg.Keys = 2
	}
	if s == Move {
		cfg.Nodes = "local:6"
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
	return runUntilTrue(t, cfg, func(_ time.Duration, granted uint64) bool {
		return granted >= locks
	})
}

// runUntilCounted runs until the Clients have counted this, however long that takes.
func runUntilCounted(t *testing.T, name, label string, cfg Config) (*Report, error) {
	t.Helper()
	registry := prometheus.NewRegistry()
	cfg.Metrics = registry
	return runUntilTrue(t, cfg, func(time.Duration, uint64) bool {
		return counted(t, registry, name, label) > 0
	})
}

// runUntilTrue runs until a condition is true, however long that takes.
func runUntilTrue(t *testing.T, cfg Config,
	condition func(elapsed time.Duration, locks uint64) bool,
) (*Report, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg.Duration = time.Hour
	progress := cfg.Progress
	cfg.Progress = func(elapsed time.Duration, locks uint64) {
		if progress != nil {
			progress(elapsed, locks)
		}
		if condition(elapsed, locks) {
			cancel()
		}
	}
	return Run(ctx, cfg)
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

// external starts nodes that a run uses as if they were not its own.
func external(t *testing.T, cfg Config) (*lockpipetest.Nodes, Config) {
	t.Helper()
	nodes := servertest.Start(t, 3*cfg.layouts())
	cfg.Nodes = strings.Join(nodes.URLs(), ",")
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

// skipIfShort skips a test that takes long because faults and leases do.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes more than a second")
	}
}
