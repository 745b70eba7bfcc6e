package metrics_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// startClient returns a client that is connected to three nodes, whose URLs have a password. Its
// calls never fail for being slow.
func startClient(t *testing.T) *lockpipe.Client {
	t.Helper()
	cfg := lockpipe.Config{
		TTL: 50 * time.Second, NodeTimeout: 10 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, u := range servertest.Start(t, 3).URLs() {
		cfg.Nodes = append(cfg.Nodes, strings.Replace(u, "redis://", "redis://:hunter2@", 1))
	}
	c, err := lockpipe.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	require.Eventually(t, func() bool { return c.Stats().SpareNodes == 1 }, 20*time.Second,
		10*time.Millisecond, "a node does not come up")
	return c
}

// lockTwice takes a key, wants it refused to another call, and releases it.
func lockTwice(t *testing.T, c *lockpipe.Client, key string) {
	t.Helper()
	l, err := c.Acquire(t.Context(), key)
	require.NoError(t, err)
	_, err = c.TryAcquire(t.Context(), key)
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	require.NoError(t, l.Release(t.Context()))
}

// The goal: names, units and help texts are as Prometheus has them, and what is collected is what
// is described.
func TestCollector_FollowsTheConventions(t *testing.T) {
	t.Parallel()
	c := startClient(t)
	lockTwice(t, c, "k")
	problems, err := testutil.CollectAndLint(metrics.NewCollector(c))
	require.NoError(t, err)
	require.Empty(t, problems)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(metrics.NewCollector(c)))
	families, err := registry.Gather()
	require.NoError(t, err)
	described := make(chan *prometheus.Desc, 100)
	metrics.NewCollector(c).Describe(described)
	require.Len(t, families, len(described), "a metric is described and not collected")
}

// The goal: the number of time series is a matter of the configuration, and no label has a key, a
// user or a password.
func TestCollector_SeriesDoNotGrowWithKeys(t *testing.T) {
	t.Parallel()
	c := startClient(t)
	before := testutil.CollectAndCount(metrics.NewCollector(c))
	for i := range 200 {
		lockTwice(t, c, fmt.Sprintf("secret-%d", i))
	}
	require.Equal(t, before, testutil.CollectAndCount(metrics.NewCollector(c)))
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(metrics.NewCollector(c)))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		require.NotContains(t, f.String(), "secret")
		require.NotContains(t, f.String(), "hunter2")
	}
}

// The goal: several Clients are in one registry if a label tells them apart, and can be taken out
// and put back.
func TestCollector_SeveralClientsInOneRegistry(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	for _, name := range []string{"orders", "stock"} {
		c, other := metrics.NewCollector(startClient(t)), metrics.NewCollector(startClient(t))
		r := prometheus.WrapRegistererWith(prometheus.Labels{"locks": name}, registry)
		require.NoError(t, r.Register(c))
		require.True(t, r.Unregister(c))
		require.NoError(t, r.Register(c))
		require.Error(t, r.Register(other), "a second one with the same label")
	}
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// The goal: what the client counts is what Prometheus gets, also of a client that is closed.
func TestCollector_ShowsWhatTheClientCounts(t *testing.T) {
	t.Parallel()
	c := startClient(t)
	lockTwice(t, c, "k")
	require.NoError(t, c.Close(t.Context()))
	require.NoError(t, testutil.CollectAndCompare(metrics.NewCollector(c), strings.NewReader(`
# HELP lockpipe_leases_ended_total Leases that are over, by how they ended.
# TYPE lockpipe_leases_ended_total counter
lockpipe_leases_ended_total{outcome="closed"} 0
lockpipe_leases_ended_total{outcome="expired"} 0
lockpipe_leases_ended_total{outcome="kept"} 0
lockpipe_leases_ended_total{outcome="lost"} 0
lockpipe_leases_ended_total{outcome="released"} 1
# HELP lockpipe_releases_total Calls to release a lease, by outcome.
# TYPE lockpipe_releases_total counter
lockpipe_releases_total{outcome="already_ended"} 0
lockpipe_releases_total{outcome="canceled"} 0
lockpipe_releases_total{outcome="confirmed"} 1
lockpipe_releases_total{outcome="handed_over"} 0
lockpipe_releases_total{outcome="lost"} 0
lockpipe_releases_total{outcome="no_quorum"} 0
# HELP lockpipe_spare_nodes How many more nodes may fail while a quorum remains; negative if there is no quorum.
# TYPE lockpipe_spare_nodes gauge
lockpipe_spare_nodes -2
`), "lockpipe_leases_ended_total", "lockpipe_releases_total", "lockpipe_spare_nodes"))
}
