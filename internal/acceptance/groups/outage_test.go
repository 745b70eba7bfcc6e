package groups

import (
	"context"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// groupCable connects the clients with the groups, and can cut one of these.
type groupCable struct{ groups []*kit.Cable }

func newGroupCable(v *kit.FakeNodes) *groupCable {
	return &groupCable{[]*kit.Cable{{V: v}, {V: v}, {V: v}}}
}

func (k *groupCable) dialBy(cfg *lockpipe.Config) {
	urls := cfg.Nodes
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return k.groups[slices.Index(urls, addr)/kit.GroupSize].Dial(ctx, network, addr)
	}
}

// unplug cuts groups off. When it returns, the client knows that their nodes are down.
func (k *groupCable) unplug(t *testing.T, c *lockpipe.Client, groups ...string) {
	t.Helper()
	for _, group := range groups {
		k.groups[group[0]-'a'].Pull()
	}
	time.Sleep(time.Second)
	for _, n := range c.Nodes() {
		down := slices.Contains(groups, n.Group)
		require.Equal(t, down, n.State == lockpipe.NodeDown, "%+v", n)
	}
}

// reconnected plugs a group in again. When it returns, all nodes are up.
func (k *groupCable) reconnected(t *testing.T, c *lockpipe.Client, group string) {
	t.Helper()
	k.groups[group[0]-'a'].Reconnected(t, c)
}

// withGroupCable is kit.InGroupBubble with cables.
func withGroupCable(t *testing.T, test func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client,
	k *groupCable), change ...func(*lockpipe.Config),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 3*kit.GroupSize)
		k := newGroupCable(v)
		c := v.Client(t, append(change, k.dialBy, kit.InGroups(kit.GroupSize))...)
		test(t, v, c, k)
	})
}

// The goal: while one group is down, calls for the others go on as before. Calls that need the
// group wait, and are woken in the order of arrival when it is back.
func TestGroups_AnOutageOfOneHoldsUpNoCallOfTheOthers(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"a", "b", "c"} {
		withGroupCable(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client, k *groupCable) {
			k.unplug(t, c, group)
			others := map[string][]string{"a": {"b", "c"}, "b": {"c", "a"}, "c": {"a", "b"}}[group]
			require.Negative(t, c.Stats().SpareNodes)
			keys := kit.OneOfEach(c, "k", "a", "b", "c")
			alone := kit.QueueFor(t.Context(), c, []string{kit.KeyIn(c, group, "l")})
			var waiting []<-chan kit.Outcome
			for i := range 3 {
				waiting = append(waiting, kit.QueueFor(t.Context(), c, keys))
				some := []string{keys[(i+1)%3], keys[i]}
				ended := kit.Async(t.Context(), t, c, some)
				if c.GroupOf(some[0]) != group && c.GroupOf(some[1]) != group {
					kit.Release(t, kit.Granted(t, ended)) // those before it keep no key from it
					continue
				}
				waiting = append(waiting, ended)
			}
			sent := v.Sent()
			for range 10 {
				began := time.Now()
				free := kit.OneOfEach(c, "m", others...)
				kit.Release(t, kit.Take(t, c, free[0]))
				l, err := c.AcquireAll(t.Context(), free)
				require.NoError(t, err)
				kit.Release(t, l)
				require.Zero(t, time.Since(began), "it waited for the group that is down")
				time.Sleep(time.Second)
			}
			const perRound = 3 * kit.GroupSize * 2 // an acquire and a release on nine nodes
			require.Equal(t, sent+10*perRound, v.Sent(), "calls that wait try all the time")
			kit.Waits(t, alone)
			k.reconnected(t, c, group)
			kit.Release(t, kit.Granted(t, alone))
			for _, ended := range waiting {
				select {
				case o := <-ended:
					require.NoError(t, o.Err)
					kit.Release(t, o.Lease)
				case <-time.After(kit.Patient):
					require.Fail(t, "a call is not woken")
				}
			}
			time.Sleep(time.Second)
			v.NothingLeft(t)
		})
	}
}

// The goal: a call that needs two groups which are down is woken when both are back, whichever
// comes first.
func TestGroups_ACallIsWokenWhenTheLastOfItsGroupsIsBack(t *testing.T) {
	t.Parallel()
	for _, groups := range [][]string{{"a", "c"}, {"c", "a"}} {
		withGroupCable(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client, k *groupCable) {
			k.unplug(t, c, groups...)
			waiting := kit.QueueFor(t.Context(), c, kit.OneOfEach(c, "k", "a", "c"))
			pending := kit.Async(t.Context(), t, c, kit.OneOfEach(c, "l", "c", "b", "a"))
			time.Sleep(time.Second)
			k.groups[groups[0][0]-'a'].Plug()
			time.Sleep(5 * time.Second)
			kit.Waits(t, waiting)
			kit.Waits(t, pending)
			require.NoError(t, kit.Try(t, c, kit.KeyIn(c, groups[0], "m")).Release(t.Context()))
			sent := v.Sent()
			time.Sleep(time.Minute)
			require.Equal(t, sent, v.Sent(), "they try while the other group is down")
			k.reconnected(t, c, groups[1])
			kit.Release(t, kit.Granted(t, waiting))
			kit.Release(t, kit.Granted(t, pending))
			v.NothingLeft(t)
		})
	}
}

// The goal: while one group is down, the leases of the others are extended. A lease that has keys
// there too is lost when its time is over, and its other keys are free then.
func TestGroups_AnOutageOfOneEndsOnlyLeasesThatNeedIt(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"a", "b", "c"} {
		for _, frozen := range []bool{false, true} {
			var ends []error
			withGroupCable(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client,
				k *groupCable,
			) {
				others := map[string][]string{
					"a": {"b", "c"}, "b": {"c", "a"}, "c": {"a", "b"},
				}[group]
				opts := kit.Auto(time.Second, time.Hour)
				whole := v.HoldAll(t, c, kit.OneOfEach(c, "k", "a", "b", "c"), opts...)
				var stay []*lockpipe.Lease
				for _, g := range others {
					stay = append(stay, v.HoldAll(t, c, kit.OneOfEach(c, "l", g), opts...))
				}
				stay = append(stay, v.HoldAll(t, c, kit.OneOfEach(c, "m", others...), opts...))
				time.Sleep(10 * time.Second)
				kit.Lasting(t, whole)
				if frozen {
					v.Silence(kit.MembersOf(group)...)
				} else {
					k.unplug(t, c, group)
				}
				time.Sleep(time.Second)
				kit.Over(t, whole, lockpipe.ErrLost)
				synctest.Wait()
				for _, g := range others {
					v.OnlyOn(t, c, kit.KeyIn(c, g, "k"), "")
					kit.Release(t, kit.Try(t, c, kit.KeyIn(c, g, "k")))
				}
				for range 10 {
					time.Sleep(time.Second)
					for _, l := range stay {
						kit.Lasting(t, l)
					}
				}
				require.Len(t, ends, 1)
				if frozen {
					v.Speak(kit.MembersOf(group)...)
				} else {
					k.reconnected(t, c, group)
				}
				require.NoError(t, c.ReleaseAll(t.Context(), stay...))
				time.Sleep(time.Second)
				v.NothingLeft(t)
			}, kit.Timeout(50*time.Millisecond), func(cfg *lockpipe.Config) {
				cfg.OnLost = func(_ *lockpipe.Lease, err error) { ends = append(ends, err) }
			})
		}
	}
}

// The goal: a release that one group can't answer is kept for the nodes of that group, and done
// when they are back; the others have it at once.
func TestGroups_AReleaseIsKeptForTheGroupThatIsDown(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"a", "b", "c"} {
		withGroupCable(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client, k *groupCable) {
			keys := kit.OneOfEach(c, "k", "a", "b", "c")
			l := v.HoldAll(t, c, keys)
			k.unplug(t, c, group)
			q := kit.QuorumError(t, l.Release(t.Context()))
			require.Len(t, q.Nodes, kit.GroupSize)
			kit.Over(t, l, lockpipe.ErrReleased)
			require.Equal(t, kit.GroupSize, c.Stats().PendingReleases)
			for _, key := range keys {
				want := ""
				if c.GroupOf(key) == group {
					want = l.Token()
				}
				v.OnlyOn(t, c, key, want)
			}
			k.reconnected(t, c, group)
			kit.Release(t, l)
			require.Zero(t, c.Stats().PendingReleases)
			v.NothingLeft(t)
		})
	}
}

// The goal: Ready needs each group, and names the nodes of the one that lacks.
func TestGroups_ReadyNeedsAll(t *testing.T) {
	t.Parallel()
	withGroupCable(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client, k *groupCable) {
		require.NoError(t, c.Ready(t.Context()))
		k.unplug(t, c, "b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.Ready(ctx)
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var q *lockpipe.QuorumError
		require.ErrorAs(t, err, &q)
		var named []string
		for _, n := range q.Nodes {
			named = append(named, n.Node)
		}
		require.Equal(t, v.Names(kit.MembersOf("b")...), named)
		ready := kit.Later(func() error { return c.Ready(context.Background()) })
		k.reconnected(t, c, "b")
		require.NoError(t, <-ready)
	})
}

// The goal: a call that waits for a group without a quorum keeps its keys of other groups from no
// call of its process: neither while the nodes are down, nor while they answer with errors.
func TestGroups_ACallThatLacksAGroupKeepsNoKeyOfTheOthers(t *testing.T) {
	t.Parallel()
	outages := map[string]func(*testing.T, *kit.FakeNodes, *lockpipe.Client, *groupCable, string){
		"down": func(t *testing.T, _ *kit.FakeNodes, c *lockpipe.Client, k *groupCable,
			group string,
		) {
			k.unplug(t, c, group)
		},
		"failing": func(_ *testing.T, v *kit.FakeNodes, _ *lockpipe.Client, _ *groupCable,
			group string,
		) {
			for _, i := range kit.MembersOf(group) {
				v.Fail(i, kit.OutOfMemory)
			}
		},
	}
	for name, begin := range outages {
		for _, lacking := range []string{"a", "b"} {
			withGroupCable(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client,
				k *groupCable,
			) {
				keys := kit.OneOfEach(c, "k", "a", "b")
				other := map[string]string{"a": keys[1], "b": keys[0]}[lacking]
				begin(t, v, c, k, lacking)
				waiting := []<-chan kit.Outcome{
					kit.QueueFor(t.Context(), c, keys), kit.Async(t.Context(), t, c, keys),
				}
				time.Sleep(10 * time.Second)
				for range 100 {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					l, err := c.Acquire(ctx, other)
					cancel()
					require.NoError(t, err, "%s: %s", name, lacking)
					time.Sleep(100 * time.Millisecond)
					kit.Release(t, l)
				}
				v.Heal(kit.MembersOf(lacking)...)
				k.reconnected(t, c, lacking)
				for _, ended := range waiting {
					kit.Release(t, kit.Granted(t, ended))
				}
				time.Sleep(time.Second)
				v.NothingLeft(t)
			})
		}
	}
}

// The goal: when a group is back, so many calls try at once and no more, also if their first keys
// are in another group.
func TestGroups_SoManyCallsAreWokenAtOnce(t *testing.T) {
	kit.SkipIfShort(t, "more calls in an outage than may try at once")
	t.Parallel()
	const calls = 3*kit.AtOnce + 1
	withGroupCable(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client, k *groupCable) {
		k.unplug(t, c, "a")
		var waiting []<-chan kit.Outcome
		for _, name := range kit.KeysOf("k", calls) {
			waiting = append(waiting,
				kit.QueueFor(t.Context(), c, kit.OneOfEach(c, name, "b", "a")))
		}
		time.Sleep(time.Second)
		v.Silence(kit.MembersOf("a")...)
		before := c.Stats().Attempts
		k.groups[0].Plug()
		for c.Stats().Attempts == before {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		require.Equal(t, before+2*kit.AtOnce, c.Stats().Attempts, "each has a part in both groups")
		v.Speak(kit.MembersOf("a")...)
		for _, ended := range waiting {
			kit.Release(t, kit.Granted(t, ended))
		}
		v.NothingLeft(t)
	})
}
