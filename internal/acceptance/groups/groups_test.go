package groups

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// The goal: a key is on the nodes of its group, and on no other node. Keys with the same part in
// braces are in one group.
func TestGroups_AKeyIsOnTheNodesOfItsGroupAlone(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		used := map[string]int{}
		for i := range 60 {
			key := fmt.Sprint("k", i)
			used[c.GroupOf(key)]++
			l := kit.Try(t, c, key)
			v.HeldBy(t, c, l)
			kit.Release(t, l)
		}
		require.Len(t, used, 3, "all groups are used: %v", used)
		v.NothingLeft(t)

		for i := range 30 {
			basket := fmt.Sprintf("{basket %d}", i)
			require.Equal(t, c.GroupOf(fmt.Sprint("basket ", i)), c.GroupOf("a"+basket))
			require.Equal(t, c.GroupOf("a"+basket), c.GroupOf(basket+"b"))
		}
		require.NotEqual(t, kit.KeyIn(c, "a", "{}k"), kit.KeyIn(c, "b", "{}k"), "empty braces")
	})
}

// The goal: all clients place a key alike, whatever the order in which they name the groups and
// nodes.
func TestGroups_TheOrderOfTheConfigurationDoesNotMatter(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		other := v.Client(t, kit.InGroups(kit.GroupSize), func(cfg *lockpipe.Config) {
			cfg.Groups = slices.Clone(cfg.Groups)
			slices.Reverse(cfg.Groups)
			for i := range cfg.Groups {
				cfg.Groups[i].Nodes = slices.Clone(cfg.Groups[i].Nodes)
				slices.Reverse(cfg.Groups[i].Nodes)
			}
		})
		keys := kit.KeysOf("k", 20)
		l := v.HoldAll(t, c, keys)
		for _, key := range keys {
			require.Equal(t, c.GroupOf(key), other.GroupOf(key))
			_, err := other.TryAcquire(t.Context(), key)
			require.ErrorIs(t, err, lockpipe.ErrHeld)
		}
		kit.Release(t, l)
		synctest.Wait()
		v.HoldAll(t, other, keys)
	})
}

// The goal: one lease has keys of all groups, with one token, in the order of the call. All nodes
// have it, and after Release no node has anything.
func TestGroups_ALeaseOfKeysOfAllGroups(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys := slices.Concat(kit.OneOfEach(c, "x", "c", "a", "b"), kit.OneOfEach(c, "y", "b", "c"))
		for name, acquire := range map[string]func() (*lockpipe.Lease, error){
			"try":  func() (*lockpipe.Lease, error) { return c.TryAcquireAll(t.Context(), keys) },
			"wait": func() (*lockpipe.Lease, error) { return c.AcquireAll(t.Context(), keys) },
			"async": func() (*lockpipe.Lease,
				error,
			) {
				return kit.WaitForAsync(c)(t.Context(), keys)
			},
		} {
			began := time.Now()
			l, err := acquire()
			require.NoError(t, err, name)
			require.Equal(t, keys, l.Keys())
			require.Equal(t, keys[0], l.Key())
			require.Equal(t, began.Add(kit.LongTTL-kit.LongTTL/100-2*time.Millisecond), l.Until())
			v.HeldBy(t, c, l)
			require.Equal(t, 1, c.Stats().Held)
			kit.Release(t, l)
			kit.Over(t, l, lockpipe.ErrReleased)
			v.NothingLeft(t)
		}
	})
}

// The goal: all groups are asked at the same time, so a lease of several groups takes one trip.
func TestGroups_AllAreAskedAtOnce(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys := kit.OneOfEach(c, "k", "a", "b", "c")
		v.Silence(kit.Span(0, len(v.Nodes))...)
		got := kit.Wanted(t, c, keys)
		for i := range v.Nodes {
			require.Equal(t, 1, v.Hanging(i), "node %d", i)
		}
		v.Speak(kit.Span(0, len(v.Nodes))...)
		kit.Release(t, <-got)
		v.NothingLeft(t)
	})
}

// The goal: validity counts from before the first part was sent, also if another answers late.
func TestGroups_ValidityIsTheLeast(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		for _, slow := range []string{"a", "b", "c"} {
			keys := kit.OneOfEach(c, "k", "a", "b", "c")
			v.Silence(kit.MembersOf(slow)...)
			began := time.Now()
			got := kit.Wanted(t, c, keys)
			time.Sleep(time.Second)
			v.Speak(kit.MembersOf(slow)...)
			l := <-got
			require.NotNil(t, l)
			require.Equal(t, began.Add(kit.LongTTL-kit.LongTTL/100-2*time.Millisecond), l.Until(),
				slow)
			kit.Release(t, l)
			v.NothingLeft(t)
		}
	})
}

// The goal: Extend gives all keys of all groups a new TTL.
func TestGroups_ExtendReachesAll(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys := kit.OneOfEach(c, "k", "a", "b", "c")
		l := v.HoldAll(t, c, keys, lockpipe.WithTTL(time.Second))
		require.NoError(t, l.Extend(t.Context(), 40*time.Second))
		require.Greater(t, time.Until(l.Until()), 39*time.Second)
		synctest.Wait()
		for i := range v.Nodes {
			require.Equal(t, 40*time.Second, v.Ttl(i, keys[i/kit.GroupSize]), "node %d", i)
		}
		time.Sleep(30 * time.Second)
		kit.Lasting(t, l)

		require.NoError(t, l.Extend(t.Context(), time.Second), "shorter")
		time.Sleep(time.Second)
		kit.Over(t, l, lockpipe.ErrExpired)
		v.NothingLeft(t)
	})
}

// The goal: automatic extensions hold all groups for many TTLs, and end with maxHold. A node of any
// group that lost the keys gets them again.
func TestGroups_AutomaticExtensionsReachAll(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys := kit.OneOfEach(c, "k", "a", "b", "c")
		l := v.HoldAll(t, c, keys, kit.Auto(time.Second, 20*time.Second)...)
		for range 9 {
			for group := range 3 {
				v.Del(group*kit.GroupSize, keys[group])
			}
			time.Sleep(2 * time.Second)
			kit.Lasting(t, l)
			v.HeldBy(t, c, l)
		}
		time.Sleep(3 * time.Second)
		kit.Over(t, l, lockpipe.ErrExpired)
		time.Sleep(2 * time.Second)
		v.NothingLeft(t)
	})
}

// The goal: Keep leaves the keys of all groups where they are, and for as long.
func TestGroups_KeepKeepsAll(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys := kit.OneOfEach(c, "k", "a", "b", "c")
		l := v.HoldAll(t, c, keys, lockpipe.WithTTL(time.Second))
		require.NoError(t, l.Keep(t.Context(), 30*time.Second))
		kit.Over(t, l, lockpipe.ErrKept)
		kit.Release(t, l)
		time.Sleep(29 * time.Second)
		for _, key := range keys {
			v.OnlyOn(t, c, key, l.Token())
			_, err := c.TryAcquire(t.Context(), key)
			require.ErrorIs(t, err, lockpipe.ErrHeld)
		}
		time.Sleep(time.Second)
		v.NothingLeft(t)
	})
}

// The goal: the names of groups are seen in Nodes, and a client with Nodes has none.
func TestGroups_NodesNameTheirGroup(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		nodes := c.Nodes()
		require.Len(t, nodes, len(v.Nodes))
		for i, n := range nodes {
			require.Equal(t, v.URLs[i], n.Addr)
			require.Equal(t, string(rune('a'+i/kit.GroupSize)), n.Group)
		}
		require.Equal(t, 1, c.Stats().SpareNodes)
		alone := v.Client(t)
		require.Empty(t, alone.GroupOf("k"))
		for _, n := range alone.Nodes() {
			require.Empty(t, n.Group)
		}
	})
}

// The goal: it is so on real servers too, with keys by the hundred.
func TestGroups_HoldManyKeysOnServers(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 9)
	c := grouped(t, nodes)
	keys := kit.KeysOf("k", 700)
	l, err := c.TryAcquireAll(t.Context(), keys)
	require.NoError(t, err)
	require.Equal(t, keys, l.Keys())
	require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
	of := map[string]int{}
	for _, key := range keys {
		of[c.GroupOf(key)]++
	}
	for group, n := range of {
		for _, i := range kit.MembersOf(group) {
			kit.Eventually(t, func() bool {
				own, err := kit.OwnKeys(nodes, i)
				return err == nil && len(own) == n
			}, "node %d has other keys", i)
			kit.Do(t, nodes, i, "PING")
		}
	}
	kit.Release(t, l)
	kit.NothingLeft(t, nodes)
}

// The goal: Inspect looks at the nodes of all groups, and judges the size of each group.
func TestGroups_InspectLooksAtAll(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := grouped(t, nodes)
	found, err := c.Inspect(t.Context())
	require.NoError(t, err)
	alone := 0
	for _, f := range found {
		if strings.Contains(f.Text, "one node is all there is") {
			alone++
		}
		require.NotContains(t, f.Text, "same server")
	}
	require.Equal(t, 1, alone, "%+v", found)
	require.Zero(t, c.Stats().SpareNodes)
}

// grouped returns a client of three groups of real servers, which is connected.
func grouped(t *testing.T, nodes *lockpipetest.Nodes, change ...func(*lockpipe.Config),
) *lockpipe.Client {
	t.Helper()
	return kit.Connected(t, kit.NewClient(t, nodes, append(change, kit.InGroups(nodes.Len()/3))...))
}
