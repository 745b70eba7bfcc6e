package parts_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/layout"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/lockpipe/lockpipe/multiplex"
	"github.com/stretchr/testify/require"
)

const ttl = 30 * time.Second

// owner is notified that a quorum can be reached, and extends nothing.
type owner func(group int)

func (o owner) QuorumReachable(group int) { o(group) }
func (owner) NodeAdmitted(int)            {}
func (owner) AllExtended(int) bool        { return true }

// muxOf returns a Mux of these groups of one node each.
func muxOf(t *testing.T, urls []string, next ...layout.Group) *parts.Mux {
	t.Helper()
	cfg := parts.Config{Next: next}
	for i, url := range urls {
		cfg.Groups = append(cfg.Groups, layout.Group{Name: fmt.Sprint(i), Nodes: []string{url}})
	}
	nodes, err := parts.Read(cfg)
	require.NoError(t, err)
	ready := make(chan struct{}, 1000)
	m, err := parts.New(nodes, multiplex.Config{
		NodeTimeout: 10 * time.Second, TTL: ttl, MaxTTL: ttl, Guard: multiplex.GuardOff,
		Logger: slog.New(slog.DiscardHandler),
	}, owner(func(int) { ready <- struct{}{} }))
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = m.Close(ctx)
	})
	for {
		if m.SpareNodes() >= 0 {
			return m
		}
		<-ready
	}
}

// oneOfEach returns a key of each group, in the order of the groups.
func oneOfEach(m *parts.Mux, n int) []string {
	keys := make([]string, n)
	for found, i := 0, 0; found < n; i++ {
		key := fmt.Sprint("k", i)
		var group int
		_, _ = fmt.Sscan(m.GroupOf(key), &group)
		if keys[group] == "" {
			keys[group] = key
			found++
		}
	}
	return keys
}

// has reports whether a node has the key.
func has(t *testing.T, nodes *lockpipetest.Nodes, i int, key string) bool {
	t.Helper()
	reply, err := nodes.Do(i, "EXISTS", key)
	require.NoError(t, err)
	return reply.(int64) == 1
}

// granted waits until a node has the key.
func granted(t *testing.T, nodes *lockpipetest.Nodes, i int, key string) {
	t.Helper()
	require.Eventually(t, func() bool { return has(t, nodes, i, key) }, 20*time.Second,
		time.Millisecond)
}

// The goal: an attempt via an arbiter asks the other groups only when that of the arbiter is won.
// If the caller gives up in between, nothing is left.
func TestArbiter_TheOtherGroupsAreAskedBehindIt(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	m := muxOf(t, nodes.URLs())
	keys := oneOfEach(m, 3)
	for judge := range keys {
		var c parts.Claim
		c.Init(m, keys, fmt.Sprint("token", judge), "")
		a := m.AcquireViaArbiter(&c, ttl, keys[judge], 0)
		granted(t, nodes, judge, keys[judge])
		for i := range keys {
			require.True(t, i == judge || !has(t, nodes, i, keys[i]), "asked before it")
		}
		require.Equal(t, multiplex.Won, a.Wait(t.Context(), time.Time{}).Result)
		for i := range keys {
			require.True(t, has(t, nodes, i, keys[i]))
		}
		require.Equal(t, multiplex.Won, m.Release(&c, 3).Wait(t.Context(), time.Time{}).Result)

		var given parts.Claim
		given.Init(m, keys, fmt.Sprint("given", judge), "")
		a = m.AcquireViaArbiter(&given, ttl, keys[judge], 0)
		ctx, cancel := context.WithCancel(t.Context())
		granted(t, nodes, judge, keys[judge])
		cancel()
		o := a.Wait(ctx, time.Time{})
		require.Equal(t, multiplex.NoQuorum, o.Result)
		require.Equal(t, context.Canceled, o.Ended)
		require.Equal(t, multiplex.Won, m.Release(&given, 3).Wait(t.Context(), time.Time{}).Result)
		for i := range keys {
			require.False(t, has(t, nodes, i, keys[i]))
		}
	}
}

// The goal: a claim of one group takes no more memory than its keys need, whatever the number of
// groups.
func TestClaim_OfOneGroupTakesNoMoreMemory(t *testing.T) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	allocations := func(groups int, keys ...string) float64 {
		var cfg parts.Config
		for i := range groups {
			cfg.Groups = append(cfg.Groups, layout.Group{
				Name: fmt.Sprint(i), Nodes: []string{fmt.Sprintf("node:%d", i+1)},
			})
		}
		nodes, err := parts.Read(cfg)
		require.NoError(t, err)
		m, err := parts.New(nodes, multiplex.Config{
			NodeTimeout: time.Second, TTL: ttl, MaxTTL: ttl, Dial: dial,
			Logger: slog.New(slog.DiscardHandler),
		}, owner(func(int) {}))
		require.NoError(t, err)
		defer func() { _ = m.Close(context.Background()) }()
		return testing.AllocsPerRun(2000, func() {
			var c parts.Claim
			c.Init(m, keys, "token", "@owner")
		})
	}
	require.LessOrEqual(t, allocations(3, "k"), allocations(1, "k"))
	require.LessOrEqual(t, allocations(3, "{k}1", "{k}2"), allocations(1, "{k}1", "{k}2"))
}

// The goal: while a fleet moves, a call contends where those meet that want the key: on the nodes
// that refused it. If both sets have these nodes, it goes on where it was.
func TestSide_IsWhereAKeyIsRefused(t *testing.T) {
	t.Parallel()
	group := func(ports ...int) []layout.Group {
		g := layout.Group{Name: "g"}
		for _, port := range ports {
			g.Nodes = append(g.Nodes, fmt.Sprint("127.0.0.1:", port))
		}
		return []layout.Group{g}
	}
	nodes, err := parts.Read(parts.Config{Groups: group(1, 2, 3), Next: group(1, 2, 4)})
	require.NoError(t, err)
	m, err := parts.New(nodes, multiplex.Config{
		NodeTimeout: time.Second, TTL: ttl, MaxTTL: ttl, Guard: multiplex.GuardOff,
		Logger: slog.New(slog.DiscardHandler),
	}, owner(func(int) {}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	for _, c := range []struct {
		ports      []int
		last, want int
	}{
		{[]int{1, 3}, 0, 0},
		{[]int{1, 3}, 1, 0},
		{[]int{2, 4}, 0, 1},
		{[]int{1, 2}, 0, 0},
		{[]int{1, 2}, 1, 1},
		{[]int{3, 4}, 1, 0},
	} {
		require.Equal(t, c.want, m.Side("k", group(c.ports...)[0].Nodes, c.last), c)
	}
}
