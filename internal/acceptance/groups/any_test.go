package groups

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: slots that are in several groups are all used, never more of them than there are, and a
// call that waits for any is woken by the release of any.
func TestGroups_AnyOfKeysOfSeveral(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		slots := lockpipe.Slots("slot", 6)
		of := map[string]bool{}
		var leases []*lockpipe.Lease
		for range slots {
			l, err := c.TryAcquireAny(t.Context(), slots)
			require.NoError(t, err)
			require.Len(t, l.Keys(), 1)
			of[c.GroupOf(l.Key())] = true
			leases = append(leases, l)
			v.HeldBy(t, c, l)
		}
		require.Greater(t, len(of), 1, "the slots are in one group")
		_, err := c.TryAcquireAny(t.Context(), slots)
		var held *lockpipe.HeldError
		require.ErrorAs(t, err, &held)
		require.ElementsMatch(t, slots, held.Keys)
		for i, l := range leases {
			waiting := kit.Later(func() kit.Outcome {
				l, err := c.AcquireAny(t.Context(), slots)
				return kit.OutcomeNow(l, err)
			})
			synctest.Wait()
			time.Sleep(time.Second)
			kit.Waits(t, waiting)
			kit.Release(t, l)
			time.Sleep(time.Second)
			leases[i] = kit.Granted(t, waiting)
			require.Equal(t, l.Key(), leases[i].Key())
		}
		require.NoError(t, c.ReleaseAll(t.Context(), leases...))
		v.NothingLeft(t)
	})
}

// The goal: while a group is down, any key of the others is granted at once. If all of those are
// held, the error says so.
func TestGroups_AnyOfKeysDuringAnOutage(t *testing.T) {
	t.Parallel()
	withGroupCable(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client, k *groupCable) {
		k.unplug(t, c, "b")
		keys := kit.OneOfEach(c, "k", "a", "b", "c")
		began := time.Now()
		one, err := c.TryAcquireAny(t.Context(), keys)
		require.NoError(t, err)
		two, err := c.AcquireAny(t.Context(), keys)
		require.NoError(t, err)
		require.Zero(t, time.Since(began))
		require.NotEqual(t, one.Key(), two.Key())
		_, err = c.TryAcquireAny(t.Context(), keys)
		var held *lockpipe.HeldError
		require.ErrorAs(t, err, &held)
		require.ElementsMatch(t, []string{keys[0], keys[2]}, held.Keys)
		waiting := kit.Later(func() kit.Outcome {
			l, err := c.AcquireAny(t.Context(), keys)
			return kit.OutcomeNow(l, err)
		})
		time.Sleep(10 * time.Second)
		kit.Waits(t, waiting)
		k.reconnected(t, c, "b")
		time.Sleep(time.Second)
		three := kit.Granted(t, waiting)
		require.Equal(t, keys[1], three.Key())
		require.NoError(t, c.ReleaseAll(t.Context(), one, two, three))
		v.NothingLeft(t)
	})
}

// The goal: a call that waits for any of some keys is woken by the release of one, although the
// group of another went down meanwhile.
func TestGroups_AnyOfKeysWhenAnOutageBeginsMeanwhile(t *testing.T) {
	t.Parallel()
	withGroupCable(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client, k *groupCable) {
		keys := kit.OneOfEach(c, "k", "a", "b", "c")
		var leases []*lockpipe.Lease
		for _, key := range keys {
			leases = append(leases, v.HoldAll(t, c, []string{key}))
		}
		waiting := kit.Later(func() kit.Outcome {
			l, err := c.AcquireAny(t.Context(), keys)
			return kit.OutcomeNow(l, err)
		})
		time.Sleep(time.Second)
		k.unplug(t, c, "b")
		time.Sleep(10 * time.Second)
		kit.Waits(t, waiting)
		kit.Release(t, leases[0])
		time.Sleep(2 * time.Second)
		l := kit.Granted(t, waiting)
		require.Equal(t, keys[0], l.Key())
		k.reconnected(t, c, "b")
		time.Sleep(time.Second)
		require.NoError(t, c.ReleaseAll(t.Context(), l, leases[1], leases[2]))
		v.NothingLeft(t)
	})
}

// The goal: Peek says who has each key, asks the groups of these keys alone, and names the nodes of
// the group that does not answer.
func TestGroups_Peek(t *testing.T) {
	t.Parallel()
	withGroupCable(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client, k *groupCable) {
		keys := kit.OneOfEach(c, "k", "c", "a", "b")
		l := v.HoldAll(t, c, keys[:2])
		all, err := c.Peek(t.Context(), append(keys, keys[0]))
		require.NoError(t, err)
		for i, s := range all {
			require.Equal(t, append(keys, keys[0])[i], s.Key)
			require.Equal(t, i != 2, s.Held)
			if s.Held {
				require.Equal(t, kit.GroupSize, s.Nodes)
				require.Equal(t, kit.LongTTL, s.Left)
				require.NotEmpty(t, s.Owner)
			}
		}
		k.unplug(t, c, "b")
		_, err = c.Peek(t.Context(), keys)
		var q *lockpipe.QuorumError
		require.ErrorAs(t, err, &q)
		require.Len(t, q.Nodes, kit.GroupSize)
		for i, n := range q.Nodes {
			require.Equal(t, v.URLs[kit.GroupSize+i], n.Node)
		}
		all, err = c.Peek(context.Background(), keys[:2])
		require.NoError(t, err)
		require.True(t, all[0].Held && all[1].Held)
		require.NoError(t, l.Release(t.Context()))
	})
}

// The goal: whenever the context of a call ends, the error says that the keys of the groups that
// have answered are held.
func TestGroups_AnyOfKeysSaysWhyWheneverItsContextEnds(t *testing.T) {
	t.Parallel()
	for looks := range 20 {
		kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			keys := kit.OneOfEach(c, "k", "a", "b", "c")
			for _, key := range keys {
				for i := range v.Nodes {
					v.Set(i, key, kit.Foreign)
				}
			}
			kit.SaysWhy(t, c, keys, looks, lockpipe.ErrHeld)
		})
	}
}
