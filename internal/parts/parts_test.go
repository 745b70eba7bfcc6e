package parts_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/multiplex"
	"github.com/stretchr/testify/require"
)

const ttl = 30 * time.Second

// unwatched is for nodes of which nobody is notified.
func unwatched(int, *multiplex.Config) {}

// The goal: a claim of one group takes no more memory than its keys need, whatever the number of
// groups.
func TestClaim_OfOneGroupTakesNoMoreMemory(t *testing.T) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	allocations := func(groups int, keys ...string) float64 {
		cfg := parts.Config{Config: multiplex.Config{
			NodeTimeout: time.Second, TTL: ttl, MaxTTL: ttl, Dial: dial,
			Logger: slog.New(slog.DiscardHandler),
		}}
		for i := range groups {
			cfg.Groups = append(cfg.Groups, fleet.Group{
				Name: fmt.Sprint(i), Nodes: []string{fmt.Sprintf("node:%d", i+1)},
			})
		}
		nodes, err := parts.Read(cfg)
		require.NoError(t, err)
		m, err := parts.New(nodes, unwatched)
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
	group := func(ports ...int) []fleet.Group {
		g := fleet.Group{Name: "g"}
		for _, port := range ports {
			g.Nodes = append(g.Nodes, fmt.Sprint("127.0.0.1:", port))
		}
		return []fleet.Group{g}
	}
	nodes, err := parts.Read(parts.Config{
		Config: multiplex.Config{
			NodeTimeout: time.Second, TTL: ttl, MaxTTL: ttl, Guard: guard.Off,
			Logger: slog.New(slog.DiscardHandler),
		},
		Groups: group(1, 2, 3), Next: group(1, 2, 4),
	})
	require.NoError(t, err)
	m, err := parts.New(nodes, unwatched)
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
