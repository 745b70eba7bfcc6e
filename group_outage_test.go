package lockpipe_test

import (
	"context"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// groupCable connects the clients with the groups, and can cut one of these.
type groupCable struct{ groups []*cable }

func newGroupCable(v *fakeNodes) *groupCable {
	return &groupCable{[]*cable{{v: v}, {v: v}, {v: v}}}
}

func (k *groupCable) dialBy(cfg *lockpipe.Config) {
	urls := cfg.Nodes
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return k.groups[slices.Index(urls, addr)/groupSize].dial(ctx, network, addr)
	}
}

// unplug cuts groups off. When it returns, the client knows that their nodes are down.
func (k *groupCable) unplug(t *testing.T, c *lockpipe.Client, groups ...string) {
	t.Helper()
	for _, group := range groups {
		one := k.groups[group[0]-'a']
		one.mu.Lock()
		one.cut = true
		for _, conn := range one.open {
			_ = conn.Close()
		}
		one.open = nil
		one.mu.Unlock()
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
	k.groups[group[0]-'a'].reconnected(t, c)
}

// withGroupCable is inGroupBubble with cables.
func withGroupCable(t *testing.T, test func(t *testing.T, v *fakeNodes, c *lockpipe.Client,
	k *groupCable), change ...func(*lockpipe.Config),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := newFakeNodes(t, 3*groupSize)
		k := newGroupCable(v)
		c := v.client(t, append(change, k.dialBy, inGroups(groupSize))...)
		test(t, v, c, k)
	})
}

// The goal: while one group is down, calls for the others go on as before. Calls that need the
// group wait, and are woken in the order of arrival when it is back.
func TestGroups_AnOutageOfOneHoldsUpNoCallOfTheOthers(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"a", "b", "c"} {
		withGroupCable(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client, k *groupCable) {
			k.unplug(t, c, group)
			others := map[string][]string{"a": {"b", "c"}, "b": {"c", "a"}, "c": {"a", "b"}}[group]
			require.Negative(t, c.Stats().SpareNodes)
			keys := oneOfEach(c, "k", "a", "b", "c")
			alone := queueFor(t.Context(), c, []string{keyIn(c, group, "l")})
			var waiting []<-chan outcome
			for i := range 3 {
				waiting = append(waiting, queueFor(t.Context(), c, keys))
				some := []string{keys[(i+1)%3], keys[i]}
				ended := async(t.Context(), t, c, some)
				if c.GroupOf(some[0]) != group && c.GroupOf(some[1]) != group {
					release(t, granted(t, ended)) // those before it keep no key from it
					continue
				}
				waiting = append(waiting, ended)
			}
			sent := v.sent()
			for range 10 {
				began := time.Now()
				free := oneOfEach(c, "m", others...)
				release(t, take(t, c, free[0]))
				l, err := c.AcquireAll(t.Context(), free)
				require.NoError(t, err)
				release(t, l)
				require.Zero(t, time.Since(began), "it waited for the group that is down")
				time.Sleep(time.Second)
			}
			const perRound = 3 * groupSize * 2 // an acquire and a release on nine nodes
			require.Equal(t, sent+10*perRound, v.sent(), "calls that wait try all the time")
			waits(t, alone)
			k.reconnected(t, c, group)
			release(t, granted(t, alone))
			for _, ended := range waiting {
				select {
				case o := <-ended:
					require.NoError(t, o.err)
					release(t, o.lease)
				case <-time.After(patient):
					require.Fail(t, "a call is not woken")
				}
			}
			time.Sleep(time.Second)
			v.nothingLeft(t)
		})
	}
}

// The goal: a call that needs two groups which are down is woken when both are back, whichever
// comes first.
func TestGroups_ACallIsWokenWhenTheLastOfItsGroupsIsBack(t *testing.T) {
	t.Parallel()
	for _, groups := range [][]string{{"a", "c"}, {"c", "a"}} {
		withGroupCable(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client, k *groupCable) {
			k.unplug(t, c, groups...)
			waiting := queueFor(t.Context(), c, oneOfEach(c, "k", "a", "c"))
			pending := async(t.Context(), t, c, oneOfEach(c, "l", "c", "b", "a"))
			time.Sleep(time.Second)
			k.groups[groups[0][0]-'a'].plug()
			time.Sleep(5 * time.Second)
			waits(t, waiting)
			waits(t, pending)
			require.NoError(t, try(t, c, keyIn(c, groups[0], "m")).Release(t.Context()))
			sent := v.sent()
			time.Sleep(time.Minute)
			require.Equal(t, sent, v.sent(), "they try while the other group is down")
			k.reconnected(t, c, groups[1])
			release(t, granted(t, waiting))
			release(t, granted(t, pending))
			v.nothingLeft(t)
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
			withGroupCable(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client, k *groupCable) {
				others := map[string][]string{
					"a": {"b", "c"}, "b": {"c", "a"}, "c": {"a", "b"},
				}[group]
				opts := auto(time.Second, time.Hour)
				whole := v.holdAll(t, c, oneOfEach(c, "k", "a", "b", "c"), opts...)
				var stay []*lockpipe.Lease
				for _, g := range others {
					stay = append(stay, v.holdAll(t, c, oneOfEach(c, "l", g), opts...))
				}
				stay = append(stay, v.holdAll(t, c, oneOfEach(c, "m", others...), opts...))
				time.Sleep(10 * time.Second)
				lasting(t, whole)
				if frozen {
					v.silence(membersOf(group)...)
				} else {
					k.unplug(t, c, group)
				}
				time.Sleep(time.Second)
				over(t, whole, lockpipe.ErrLost)
				synctest.Wait()
				for _, g := range others {
					v.onlyOn(t, c, keyIn(c, g, "k"), "")
					release(t, try(t, c, keyIn(c, g, "k")))
				}
				for range 10 {
					time.Sleep(time.Second)
					for _, l := range stay {
						lasting(t, l)
					}
				}
				require.Len(t, ends, 1)
				if frozen {
					v.speak(membersOf(group)...)
				} else {
					k.reconnected(t, c, group)
				}
				require.NoError(t, c.ReleaseAll(t.Context(), stay...))
				time.Sleep(time.Second)
				v.nothingLeft(t)
			}, timeout(50*time.Millisecond), func(cfg *lockpipe.Config) {
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
		withGroupCable(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client, k *groupCable) {
			keys := oneOfEach(c, "k", "a", "b", "c")
			l := v.holdAll(t, c, keys)
			k.unplug(t, c, group)
			q := quorumError(t, l.Release(t.Context()))
			require.Len(t, q.Nodes, groupSize)
			over(t, l, lockpipe.ErrReleased)
			require.Equal(t, groupSize, c.Stats().PendingReleases)
			for _, key := range keys {
				want := ""
				if c.GroupOf(key) == group {
					want = l.Token()
				}
				v.onlyOn(t, c, key, want)
			}
			k.reconnected(t, c, group)
			release(t, l)
			require.Zero(t, c.Stats().PendingReleases)
			v.nothingLeft(t)
		})
	}
}

// The goal: Ready needs each group, and names the nodes of the one that lacks.
func TestGroups_ReadyNeedsAll(t *testing.T) {
	t.Parallel()
	withGroupCable(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client, k *groupCable) {
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
		require.Equal(t, v.names(membersOf("b")...), named)
		ready := later(func() error { return c.Ready(context.Background()) })
		k.reconnected(t, c, "b")
		require.NoError(t, <-ready)
	})
}

// The goal: a call that waits for a group without a quorum keeps its keys of other groups from no
// call of its process: neither while the nodes are down, nor while they answer with errors.
func TestGroups_ACallThatLacksAGroupKeepsNoKeyOfTheOthers(t *testing.T) {
	t.Parallel()
	outages := map[string]func(*testing.T, *fakeNodes, *lockpipe.Client, *groupCable, string){
		"down": func(t *testing.T, _ *fakeNodes, c *lockpipe.Client, k *groupCable, group string) {
			k.unplug(t, c, group)
		},
		"failing": func(_ *testing.T, v *fakeNodes, _ *lockpipe.Client, _ *groupCable,
			group string,
		) {
			for _, i := range membersOf(group) {
				v.fail(i, outOfMemory)
			}
		},
	}
	for name, begin := range outages {
		for _, lacking := range []string{"a", "b"} {
			withGroupCable(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client, k *groupCable) {
				keys := oneOfEach(c, "k", "a", "b")
				other := map[string]string{"a": keys[1], "b": keys[0]}[lacking]
				begin(t, v, c, k, lacking)
				waiting := []<-chan outcome{
					queueFor(t.Context(), c, keys), async(t.Context(), t, c, keys),
				}
				time.Sleep(10 * time.Second)
				for range 100 {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					l, err := c.Acquire(ctx, other)
					cancel()
					require.NoError(t, err, "%s: %s", name, lacking)
					time.Sleep(100 * time.Millisecond)
					release(t, l)
				}
				v.heal(membersOf(lacking)...)
				k.reconnected(t, c, lacking)
				for _, ended := range waiting {
					release(t, granted(t, ended))
				}
				time.Sleep(time.Second)
				v.nothingLeft(t)
			})
		}
	}
}

// The goal: when a group is back, so many calls try at once and no more, also if their first keys
// are in another group.
func TestGroups_SoManyCallsAreWokenAtOnce(t *testing.T) {
	skipIfShort(t, "more calls in an outage than may try at once")
	t.Parallel()
	const calls = 3*atOnce + 1
	withGroupCable(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client, k *groupCable) {
		k.unplug(t, c, "a")
		var waiting []<-chan outcome
		for _, name := range keysOf("k", calls) {
			waiting = append(waiting, queueFor(t.Context(), c, oneOfEach(c, name, "b", "a")))
		}
		time.Sleep(time.Second)
		v.silence(membersOf("a")...)
		before := c.Stats().Attempts
		k.groups[0].plug()
		for c.Stats().Attempts == before {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		require.Equal(t, before+2*atOnce, c.Stats().Attempts, "each has a part in both groups")
		v.speak(membersOf("a")...)
		for _, ended := range waiting {
			release(t, granted(t, ended))
		}
		v.nothingLeft(t)
	})
}
