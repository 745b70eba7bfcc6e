package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// layoutsOf are the clients of a fleet that moves: of the old layout, of both, and of the new one.
func layoutsOf(t *testing.T, nodes *lockpipetest.Nodes, old, next []int) (all [3]*lockpipe.Client) {
	t.Helper()
	groups := func(which []int) []lockpipe.Group {
		return []lockpipe.Group{{Name: "g", Nodes: kit.Addresses(nodes, which)}}
	}
	for i, change := range []func(*lockpipe.Config){
		func(cfg *lockpipe.Config) { cfg.Groups = groups(old) },
		func(cfg *lockpipe.Config) { cfg.Groups, cfg.Next = groups(old), groups(next) },
		func(cfg *lockpipe.Config) { cfg.Groups = groups(next) },
	} {
		all[i] = kit.NewClient(t, nodes, func(cfg *lockpipe.Config) {
			cfg.Nodes, cfg.RestartGuard = nil, lockpipe.GuardOff
			change(cfg)
		})
	}
	for _, c := range all {
		ctx, cancel := context.WithTimeout(t.Context(), kit.Patient)
		require.NoError(t, c.Ready(ctx))
		cancel()
	}
	return all
}

// The goal: of the clients of a fleet that moves, those that may be in use together exclude each
// other, whether or not the layouts share nodes. The old and the new one alone do not.
func TestMoving_ClientsOfOneStepExcludeEachOther(t *testing.T) {
	t.Parallel()
	for name, layouts := range map[string][2][]int{
		"all replaced":    {{0, 1, 2}, {3, 4, 5}},
		"one replaced":    {{0, 1, 2}, {0, 1, 3}},
		"one to three":    {{0}, {0, 1, 2}},
		"three to five":   {{0, 1, 2}, {0, 1, 2, 3, 4}},
		"five to another": {{0, 1, 2, 3, 4}, {5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := servertest.Start(t, 6)
			clients := layoutsOf(t, nodes, layouts[0], layouts[1])
			for _, step := range [][2]int{{0, 1}, {1, 0}, {1, 2}, {2, 1}} {
				l := kit.Take(t, clients[step[0]], "k")
				_, err := clients[step[1]].TryAcquire(t.Context(), "k")
				require.ErrorIs(t, err, lockpipe.ErrHeld, "%v", step)
				require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
				next := kit.Later(func() *lockpipe.Lease {
					return kit.Take(t, clients[step[1]],
						"k")
				})
				kit.Release(t, l)
				kit.Release(t, kit.Receive(t, next, "the next call waits"))
			}
			both := kit.Take(t, clients[1], "k")
			for _, layout := range layouts {
				kit.OnQuorum(t, nodes, layout, "k", both.Token())
			}
			kit.Release(t, both)
			kit.NothingLeft(t, nodes)
		})
	}
}

// The goal: while a group is added, a lease of several keys needs the quorums of each key's groups
// in both layouts, also with fences, and leaves nothing behind.
func TestMoving_AGroupIsAdded(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	groups := []lockpipe.Group{
		{Name: "a", Nodes: kit.Addresses(nodes, []int{0})},
		{Name: "b", Nodes: kit.Addresses(nodes, []int{1})},
		{Name: "c", Nodes: kit.Addresses(nodes, []int{2})},
	}
	c := kit.Connected(t, kit.NewClient(t, nodes, func(cfg *lockpipe.Config) {
		cfg.Nodes, cfg.Groups, cfg.Next = nil, groups[:2], groups
	}))
	after := kit.Connected(t, kit.NewClient(t, nodes, func(cfg *lockpipe.Config) {
		cfg.Nodes, cfg.Groups = nil, groups
	}))
	var keys []string
	moved := 0
	for i := range 24 {
		key := fmt.Sprint("k", i)
		keys = append(keys, key)
		if after.GroupOf(key) == "c" {
			moved++
		}
	}
	require.NotZero(t, moved)
	l, err := c.AcquireAll(t.Context(), keys, lockpipe.WithFencing())
	require.NoError(t, err)
	require.Equal(t, keys, l.Keys())
	for _, key := range keys {
		_, err := after.TryAcquire(t.Context(), key)
		require.ErrorIs(t, err, lockpipe.ErrHeld, key)
		at := map[string]int{"a": 0, "b": 1, "c": 2}
		for _, group := range []string{c.GroupOf(key), after.GroupOf(key)} {
			kit.OnQuorum(t, nodes, []int{at[group]}, key, l.Token())
		}
	}
	status, err := c.Peek(t.Context(), keys)
	require.NoError(t, err)
	for _, s := range status {
		require.True(t, s.Held, s.Key)
	}
	until := l.Until()
	require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
	require.True(t, l.Until().After(until))
	fence := l.Fence()
	kit.Release(t, l)
	next, err := after.AcquireAll(t.Context(), keys, lockpipe.WithFencing())
	require.NoError(t, err)
	require.Greater(t, next.Fence(), fence)
	kit.Release(t, next)
	anyOne, err := c.AcquireAny(t.Context(), keys)
	require.NoError(t, err)
	kit.Release(t, anyOne)
	kit.NothingLeft(t, nodes)
}

// The goal: the same when groups are divided and joined, so that groups that share nodes need
// different quorums.
func TestMoving_GroupsThatShareNodesAreDividedAndJoined(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 5)
	groups := func(all ...[]int) (groups []lockpipe.Group) {
		for i, which := range all {
			groups = append(groups, lockpipe.Group{
				Name: fmt.Sprint("g", i), Nodes: kit.Addresses(nodes, which),
			})
		}
		return groups
	}
	old, next := groups([]int{0, 1}, []int{2}, []int{3}), groups([]int{3}, []int{0, 1, 2}, []int{4})
	var clients [3]*lockpipe.Client
	for i, change := range []func(*lockpipe.Config){
		func(cfg *lockpipe.Config) { cfg.Groups = old },
		func(cfg *lockpipe.Config) { cfg.Groups, cfg.Next = old, next },
		func(cfg *lockpipe.Config) { cfg.Groups = next },
	} {
		clients[i] = kit.Connected(t, kit.NewClient(t, nodes, func(cfg *lockpipe.Config) {
			cfg.Nodes, cfg.RestartGuard = nil, lockpipe.GuardOff
			change(cfg)
		}))
	}
	for i := range 40 {
		key := fmt.Sprint("k", i)
		for _, step := range [][2]int{{0, 1}, {1, 0}, {1, 2}, {2, 1}} {
			l := kit.Take(t, clients[step[0]], key) // what failed before may still be released
			_, err := clients[step[1]].TryAcquire(t.Context(), key)
			require.ErrorIs(t, err, lockpipe.ErrHeld, "%s %v", key, step)
			kit.Release(t, l)
		}
	}
	kit.NothingLeft(t, nodes)
}

// The goal: while groups are joined, a call for keys of two of them needs the quorum of each: a key
// that a client of the present layout has on its group alone is held, in whatever order the keys
// are named.
func TestMoving_KeysOfJoinedGroupsNeedTheQuorumOfEach(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, both *lockpipe.Client) {
		present := v.Client(t, kit.InGroups(1))
		first, second := kit.KeyIn(both, "a", "k"), kit.KeyIn(both, "b", "k")
		for _, keys := range [][]string{{first, second}, {second, first}} {
			for _, held := range keys {
				l := kit.Try(t, present, held)
				_, err := both.TryAcquireAll(t.Context(), keys)
				require.ErrorIs(t, err, lockpipe.ErrHeld, "%v, and %s is held", keys, held)
				kit.Release(t, l)
				synctest.Wait()
				all, err := both.TryAcquireAll(t.Context(), keys)
				require.NoError(t, err)
				_, err = present.TryAcquire(t.Context(), held)
				require.ErrorIs(t, err, lockpipe.ErrHeld)
				kit.Release(t, all)
				v.NothingLeft(t)
			}
		}
	}, kit.InGroups(1), func(cfg *lockpipe.Config) {
		next := lockpipe.Group{Name: "all"}
		for _, g := range cfg.Groups {
			next.Nodes = append(next.Nodes, g.Nodes...)
		}
		cfg.Next = []lockpipe.Group{next}
	})
}

// The goal: while a group is divided into two of its nodes, or two are joined, a lease of keys of
// both is extended as any other.
func TestMoving_LeasesOfGroupsThatShareNodesAreExtended(t *testing.T) {
	t.Parallel()
	for _, joined := range []bool{false, true} {
		kit.InBubble(t, 2, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			l, err := c.TryAcquireAll(t.Context(), kit.KeysOf("k", 20),
				kit.Auto(time.Second, time.Hour)...)
			require.NoError(t, err)
			time.Sleep(time.Minute)
			kit.Lasting(t, l)
			kit.Release(t, l)
			v.NothingLeft(t)
		}, func(cfg *lockpipe.Config) {
			one, two := kit.GroupsOf(cfg.Nodes, 2), kit.GroupsOf(cfg.Nodes, 1)
			if cfg.Nodes, cfg.Groups, cfg.Next = nil, one, two; joined {
				cfg.Groups, cfg.Next = two, one
			}
		})
	}
}

// The goal: while groups are joined, Peek needs the quorums of its keys and no others.
func TestMoving_PeekNeedsTheGroupsOfItsKeysAlone(t *testing.T) {
	t.Parallel()
	for _, needed := range []bool{false, true} {
		kit.InBubble(t, 4, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			v.Silence(3)
			l := kit.Take(t, c, kit.KeyIn(c, "a", "k"))
			synctest.Wait() // node 3 was sent it too, and what comes behind it hangs there
			keys := []string{l.Key()}
			if needed {
				keys = append(keys, kit.KeyIn(c, "b", "k"))
			}
			all, err := c.Peek(t.Context(), keys)
			if needed {
				require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
			} else {
				require.NoError(t, err)
				require.True(t, all[0].Held)
			}
			v.Speak(3)
			kit.Release(t, l)
			v.NothingLeft(t)
		}, kit.Timeout(50*time.Millisecond), func(cfg *lockpipe.Config) {
			cfg.Groups = []lockpipe.Group{
				{Name: "a", Nodes: cfg.Nodes[:3]}, {Name: "b", Nodes: cfg.Nodes[3:]},
			}
			cfg.Next, cfg.Nodes = []lockpipe.Group{{Name: "a", Nodes: cfg.Nodes}}, nil
		})
	}
}

// The goal: in the second step of a move a client of both layouts waits where a client of the new
// one alone has the key: it is woken by the release, however long its delay is. Peek says that the
// key is held.
func TestMoving_AWaitingCallIsWokenByTheNextLayout(t *testing.T) {
	t.Parallel()
	for name, layouts := range map[string][2][]int{
		"all replaced": {{0, 1, 2}, {3, 4, 5}},
		"two replaced": {{0, 1, 2}, {0, 3, 4}},
		"one replaced": {{0, 1, 2}, {0, 1, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := servertest.Start(t, 6)
			clients := layoutsOf(t, nodes, layouts[0], layouts[1])
			both, next := clients[1], clients[2]
			for i := range 10 {
				key := fmt.Sprint("k", i)
				l := kit.Take(t, next, key)
				held, err := both.Peek(t.Context(), []string{key})
				require.NoError(t, err)
				require.True(t, held[0].Held, "nobody else can have it")
				ended := kit.Later(func() kit.Outcome {
					ctx, cancel := context.WithTimeout(t.Context(), kit.Patient)
					defer cancel()
					l, err := both.Acquire(ctx, key,
						lockpipe.WithRetryDelay(time.Minute, time.Minute))
					return kit.OutcomeNow(l, err)
				})
				time.Sleep(20 * time.Millisecond) // it waits by now, mostly
				kit.Release(t, l)
				o := <-ended
				require.NoError(t, o.Err, "it is not woken")
				kit.Release(t, o.Lease)
			}
		})
	}
}

// The goal: if two nodes of the next layout are down, an error names them, and not the nodes of the
// present layout, whether or not the layouts share a node.
func TestMoving_AnErrorNamesTheLayoutThatLacksAQuorum(t *testing.T) {
	t.Parallel()
	for _, first := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			v := kit.NewFakeNodes(t, 4)
			cfg := kit.Config(v.URLs[:3], nil)
			cfg.Next = []lockpipe.Group{{Name: "b", Nodes: []string{v.URLs[first], "x:1", "y:1"}}}
			cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if addr == "x:1" || addr == "y:1" {
					return nil, errors.New("refused")
				}
				return v.Dial(ctx, network, addr)
			}
			c, err := lockpipe.New(cfg)
			require.NoError(t, err)
			time.Sleep(time.Second)
			_, err = c.TryAcquire(t.Context(), "k")
			all := c.Nodes()
			kit.CloseSoon(c)
			require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
			require.ErrorContains(t, err, "x:1: refused; y:1: refused")
			for _, n := range all {
				down := n.Addr == "x:1" || n.Addr == "y:1"
				require.Equal(t, down, n.Stats.Failures.Down > 0, n.Addr)
			}
		})
	}
}
