package nodes

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

const (
	// layoutUnused is after what time everybody has seen that nobody uses a layout any more.
	layoutUnused = 2 * time.Minute
	// layoutSeen is after what time everybody has seen a new entry.
	layoutSeen = 32 * time.Second
)

// onNodes has a client use only some of the nodes.
func onNodes(first, end int) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) { cfg.Nodes = cfg.Nodes[first:end] }
}

func strictly(cfg *lockpipe.Config) { cfg.RestartGuard = lockpipe.GuardStrict }

func owner(name string) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) { cfg.Owner = name }
}

// The goal: two clients with different nodes notice each other on the nodes that they share, and
// that the other one is gone. Nothing is stopped for that, also with GuardStrict.
func TestLayouts_OtherNodesAreNoticed(t *testing.T) {
	t.Parallel()
	for _, mode := range []lockpipe.GuardMode{
		lockpipe.GuardAuto, lockpipe.GuardStrict, lockpipe.GuardOff,
	} {
		synctest.Test(t, func(t *testing.T) {
			v := kit.NewFakeNodes(t, 5)
			v.WithRunIDs()
			guard := func(cfg *lockpipe.Config) { cfg.RestartGuard = mode }
			var logA, logB kit.LockedBuffer
			a := v.Client(t, onNodes(0, 3), kit.LogTo(&logA), guard, owner("a-1"))
			held := kit.Take(t, a, "held", kit.Auto(time.Minute, 24*time.Hour)...)
			same := v.Client(t, func(cfg *lockpipe.Config) {
				cfg.Nodes = []string{"redis://" + v.URLs[2], v.URLs[0], v.URLs[1] + "/0"}
			})
			time.Sleep(layoutSeen)
			require.Zero(t, a.Stats().ForeignLayouts+same.Stats().ForeignLayouts)
			b := v.Client(t, onNodes(2, 5), kit.LogTo(&logB), guard, owner("b-1"))
			require.Equal(t, 1, b.Stats().ForeignLayouts, "it sees the other at its connect")
			time.Sleep(layoutSeen)
			require.Equal(t, 1, a.Stats().ForeignLayouts)
			time.Sleep(5 * time.Minute)
			for log, names := range map[*kit.LockedBuffer]string{
				&logA: "layout=node-2:6379,node-3:6379,node-4:6379 own_layout=node-0:6379,",
				&logB: "layout=node-0:6379,node-1:6379,node-2:6379 own_layout=node-2:6379,",
			} {
				lines := kit.LinesWith(log, "shares no quorum")
				require.Len(t, lines, 1, log.String())
				require.Contains(t, lines[0], "level=ERROR")
				require.Contains(t, lines[0], "nodes=[node-2:6379]")
				require.Contains(t, lines[0], " owner=")
				require.Contains(t, lines[0], names)
				require.Contains(t, lines[0], "Config.Next")
			}
			require.Contains(t, kit.LinesWith(&logA, "shares no quorum")[0], "own_owner=a-1 owner=b-1 ")
			for _, c := range []*lockpipe.Client{a, b} {
				require.True(t, kit.AllUp(c), "%+v", c.Nodes())
				kit.Try(t, c, "k")
			}
			require.NoError(t, held.Err())
			require.NoError(t, b.Close(t.Context()))
			time.Sleep(layoutUnused)
			require.Zero(t, a.Stats().ForeignLayouts)
			require.Len(t, kit.LinesWith(&logA, "not in use any more"), 1)
		})
	}
}

// The goal: two services that call the same nodes by different names see one layout, whatever
// restarts.
func TestLayouts_TheSameNodesUnderTwoNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 3)
		v.WithRunIDs()
		var log kit.LockedBuffer
		a := v.Client(t, strictly, kit.LogTo(&log))
		b := v.Client(t, strictly, kit.LogTo(&log), alias(v))
		held := kit.Take(t, a, "held", kit.Auto(5*time.Second, time.Hour)...)
		for i := range v.Nodes {
			time.Sleep(layoutSeen)
			v.Nodes[i].Durable = true
			v.Nodes[i].Restart()
			time.Sleep(2 * layoutSeen)
		}
		time.Sleep(layoutSeen)
		require.True(t, kit.AllUp(a))
		require.True(t, kit.AllUp(b))
		require.NoError(t, held.Err())
		require.Zero(t, a.Stats().ForeignLayouts+b.Stats().ForeignLayouts)
		require.Empty(t, kit.LinesWith(&log, "level=ERROR"), log.String())
		_, err := b.TryAcquire(t.Context(), "held")
		require.ErrorIs(t, err, lockpipe.ErrHeld)
	})
}

// The goal: while a fleet moves, a client with Next is foreign to nobody, and the old and the new
// layout alone are foreign to each other.
func TestLayouts_AMoveIsNoAlarm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 4)
		v.WithRunIDs()
		var log kit.LockedBuffer
		next := func(cfg *lockpipe.Config) {
			cfg.Next = []lockpipe.Group{{Name: "b", Nodes: v.URLs[1:4]}}
		}
		before := v.Client(t, onNodes(0, 3), kit.LogTo(&log))
		both := v.Client(t, onNodes(0, 3), next, kit.LogTo(&log))
		time.Sleep(2 * layoutSeen)
		require.NoError(t, before.Close(t.Context()))
		time.Sleep(layoutUnused)
		after := v.Client(t, onNodes(1, 4), kit.LogTo(&log))
		time.Sleep(2 * layoutSeen)
		require.Zero(t, both.Stats().ForeignLayouts+after.Stats().ForeignLayouts)
		require.Empty(t, kit.LinesWith(&log, "level=ERROR"), log.String())
		v.Client(t, onNodes(0, 3))
		time.Sleep(2 * layoutSeen)
		require.Equal(t, 1, after.Stats().ForeignLayouts)
		require.Zero(t, both.Stats().ForeignLayouts)
	})
}

// The goal: others soon know that a client has lost the connection to a node, so that they take no
// former run_id for the node's.
func TestLayouts_ALostNodeHasNoRunID(t *testing.T) {
	for _, loses := range []struct {
		what  string
		state lockpipe.NodeState
		lose  func(v *kit.FakeNodes, unreachable *atomic.Bool)
	}{
		{"memory", lockpipe.NodeQuarantined, func(v *kit.FakeNodes, _ *atomic.Bool) {
			v.Nodes[1].Restart()
		}},
		{"network", lockpipe.NodeDown, func(v *kit.FakeNodes, unreachable *atomic.Bool) {
			unreachable.Store(true)
			v.Nodes[1].Restart()
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			v := kit.NewFakeNodes(t, 3)
			v.WithRunIDs()
			var unreachable atomic.Bool
			c := v.Client(t, func(cfg *lockpipe.Config) {
				cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					if unreachable.Load() && address == v.URLs[1] {
						return nil, errors.New("nobody")
					}
					return v.Dial(ctx, network, address)
				}
			})
			time.Sleep(time.Second)
			shown := func() string {
				s := v.Nodes[0].Accept(func([]byte) {}, func() {})
				return string(s.Execute([]string{"HGETALL", kit.LayoutsKey}))
			}
			before := v.Nodes[1].RunID()
			require.Contains(t, shown(), before, loses.what)
			loses.lose(v, &unreachable)
			time.Sleep(time.Second)
			require.Equal(t, loses.state, c.Nodes()[1].State, loses.what)
			require.NotContains(t, shown(), before, loses.what)
			require.Contains(t, shown(), v.Nodes[2].RunID(), loses.what)
		})
	}
}

// The goal: an entry lasts until the last lease of a client that stopped has run out, and ten
// minutes longer.
func TestLayouts_AnEntryOutlastsTheLeases(t *testing.T) {
	t.Parallel()
	for _, mode := range []lockpipe.GuardMode{lockpipe.GuardAuto, lockpipe.GuardOff} {
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			time.Sleep(5 * time.Minute)
			require.NoError(t, c.Close(t.Context()))
			for _, n := range v.Nodes {
				require.Greater(t, n.TTL(kit.LayoutsKey), time.Minute+9*time.Minute)
				require.LessOrEqual(t, n.TTL(kit.LayoutsKey), time.Minute+10*time.Minute)
			}
		}, func(cfg *lockpipe.Config) { cfg.RestartGuard = mode })
	}
}

// The goal: a node that refuses the entry has no votes, and says which permission lacks.
func TestLayouts_AUserWithoutThePermissionHasNoVote(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	for name, rules := range map[string]string{
		"key": "~app:k* ~app:lockpipe:admitted ~app:lockpipe:none:* +@all",
		"all": "~app:* +@all", "time": "~app:* +@all -time", "hash": "~app:* +@all -hset",
	} {
		kit.Do(t, nodes, 0, append([]string{"ACL", "SETUSER", name, "on", ">secret"},
			strings.Fields(rules)...)...)
		for _, mode := range []lockpipe.GuardMode{lockpipe.GuardAuto, lockpipe.GuardOff} {
			c := kit.NewClient(t, nodes, func(cfg *lockpipe.Config) {
				cfg.Nodes = []string{strings.Replace(cfg.Nodes[0], "://", "://"+name+":secret@", 1)}
				cfg.RestartGuard = mode
			})
			if name == "all" {
				require.NoError(t, kit.Try(t, kit.Connected(t, c), "k").Release(t.Context()))
				continue
			}
			down(t, c, 0, "app:lockpipe:layouts")
			require.ErrorContains(t, c.Nodes()[0].Err, "+hgetall +hset")
		}
		kit.Do(t, nodes, 0, "DEL", kit.LayoutsKey) // else nothing would be written
	}
}

// The goal: if an entry can't be renewed, the node votes as long as the entry outlasts the client's
// locks, and no longer. It is back when the entry can be renewed.
func TestLayouts_WithoutRenewalsANodeLosesItsVote(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		var refused atomic.Bool
		refused.Store(true)
		v.Intercept(2, func(_ string, args []string) string {
			if !refused.Load() || !slices.Contains(args, kit.LayoutsKey) {
				return ""
			}
			return kit.Failed("NOPERM this user has no permissions")
		})
		time.Sleep(8 * time.Minute)
		require.True(t, kit.AllUp(c))
		time.Sleep(2 * time.Minute)
		require.Equal(t, lockpipe.NodeDown, c.Nodes()[2].State)
		require.ErrorContains(t, c.Nodes()[2].Err, "NOPERM")
		kit.Try(t, c, "k")
		refused.Store(false)
		time.Sleep(2 * time.Second)
		require.True(t, kit.AllUp(c))
	})
}

// The goal: a person sees which layouts are in use, by whom, and which one is wrong.
func TestLayouts_AreInspected(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 4)
	short := func(cfg *lockpipe.Config) { // for which the node without a marker has no vote
		cfg.TTL, cfg.MaxTTL, cfg.NodeTimeout = time.Second, time.Second, time.Second
	}
	kit.Connected(t, kit.NewClient(t, nodes, onNodes(0, 2), short, owner("a-1")))
	longer := func(cfg *lockpipe.Config) { cfg.MaxTTL = 2 * time.Second }
	c := kit.Connected(t, kit.NewClient(t, nodes, onNodes(1, 4), short, owner("b-1"), longer))
	text := func(from, end int) string {
		return strings.Join(slices.Sorted(slices.Values(kit.Addresses(nodes, kit.Span(from, end)))),
			",")
	}
	all := inspected(t, c)
	finds(t, all, "", lockpipe.SeverityInfo, text(0, 2)+" (owner a-1, MaxTTL 1s, renewed ")
	finds(t, all, "", lockpipe.SeverityInfo, text(1, 4)+" (this client's; owner b-1, MaxTTL 2s")
	finds(t, all, "", lockpipe.SeverityWarning,
		"nodes have MaxTTL 2s (owner b-1) and 1s (owner a-1) on record")
	finds(t, all, "", lockpipe.SeverityError, "another client (owner a-1) uses the layout "+
		text(0, 2)+" (seen on "+kit.Address(nodes, 1)+"), which shares no quorum with this client's "+
		"(owner b-1, layout "+text(1, 4)+")")
}

// alias has a client call the nodes by other names.
func alias(v *kit.FakeNodes) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) {
		cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			return v.Dial(ctx, network, strings.TrimPrefix(address, "other-"))
		}
		cfg.Nodes = nil
		for _, name := range v.URLs {
			cfg.Nodes = append(cfg.Nodes, "other-"+name)
		}
	}
}
