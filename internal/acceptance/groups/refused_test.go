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

// acquiringAll are the names of the calls of acquiring that want all keys under one lease.
var acquiringAll = []string{"TryAcquireAll", "AcquireAll", "DoAll"}

// The goal: if another holds a key of one group, the error names that key and the nodes of its
// group, and nothing is left on the nodes of the others.
func TestGroups_ARefusedPartReleasesTheOthers(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		other := v.Client(t, kit.InGroups(kit.GroupSize))
		for _, group := range []string{"a", "b", "c"} {
			keys := kit.OneOfEach(c, "k", "a", "b", "c")
			held := v.HoldAll(t, other, []string{kit.KeyIn(c, group, "k")})
			for _, name := range acquiringAll {
				try := kit.Acquiring[name]
				err := try(t.Context(), c, keys, lockpipe.WithMaxAttempts(2))
				var e *lockpipe.HeldError
				require.ErrorAs(t, err, &e, name)
				require.Equal(t, []string{held.Key()}, e.Keys, name)
				require.Subset(t, v.Names(kit.MembersOf(group)...), e.Nodes, name)
				require.GreaterOrEqual(t, len(e.Nodes), 2, name)
				synctest.Wait()
				for _, key := range keys {
					want := ""
					if key == held.Key() {
						want = held.Token()
					}
					v.OnlyOn(t, c, key, want)
				}
			}
			kit.Release(t, held)
			v.NothingLeft(t)
		}
	})
}

// The goal: while a call waits for a key of one group, it holds none of the others.
func TestGroups_NothingIsHeldWhileACallWaits(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		other := v.Client(t, kit.InGroups(kit.GroupSize))
		keys := kit.OneOfEach(c, "k", "a", "b", "c")
		held := v.HoldAll(t, other, keys[1:2])
		waiting := kit.QueueFor(t.Context(), c, keys)
		pending := kit.Async(t.Context(), t, other, []string{keys[2], keys[1]})
		for range 20 {
			time.Sleep(777 * time.Millisecond)
			synctest.Wait()
			for _, key := range []string{keys[0], keys[2]} {
				l, err := other.TryAcquire(t.Context(), key)
				require.NoError(t, err)
				kit.Release(t, l)
			}
		}
		kit.Waits(t, waiting)
		kit.Release(t, held)
		time.Sleep(time.Second)
		kit.Release(t, kit.Granted(t, waiting)) // it came first
		time.Sleep(time.Second)
		kit.Release(t, kit.Granted(t, pending))
		v.NothingLeft(t)
	})
}

// The goal: a group without a quorum fails the lease with the nodes of that group, and what the
// others granted is released.
func TestGroups_APartWithoutAQuorumReleasesTheOthers(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		for _, group := range []string{"a", "b", "c"} {
			keys := kit.OneOfEach(c, "k", "a", "b", "c")
			bad := kit.MembersOf(group)[1:]
			for _, i := range bad {
				v.Fail(i, kit.ReadOnly)
			}
			for _, name := range acquiringAll {
				try := kit.Acquiring[name]
				q := kit.QuorumError(t, try(t.Context(), c, keys, lockpipe.WithMaxAttempts(2)))
				require.Equal(t, 2, q.Need, name)
				require.LessOrEqual(t, q.Granted, 1, name)
				var named []string
				for _, n := range q.Nodes {
					named = append(named, n.Node)
				}
				require.Subset(t, named, v.Names(bad...), name)
				require.Subset(t, v.Names(kit.MembersOf(group)...), named, name)
				synctest.Wait()
				for _, key := range keys {
					v.OnlyOn(t, c, key, "")
				}
			}
			v.Heal(bad...)
			time.Sleep(time.Second)
			v.NothingLeft(t)
		}
	})
}

// The goal: if one group refuses and another has no quorum, the error is that a key is held: more
// attempts wait for that.
func TestGroups_HeldCountsBeforeNoQuorum(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys := kit.OneOfEach(c, "k", "a", "b", "c")
		for _, i := range kit.MembersOf("a") {
			v.Fail(i, kit.ReadOnly)
		}
		held := v.HoldAll(t, v.Client(t, kit.InGroups(kit.GroupSize)), keys[2:])
		_, err := c.TryAcquireAll(t.Context(), keys)
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.NotErrorIs(t, err, lockpipe.ErrNoQuorum)
		synctest.Wait()
		v.OnlyOn(t, c, keys[1], "")
		kit.Release(t, held)
		v.NothingLeft(t)
	})
}

// The goal: if ctx ends while a group has not answered, the others are released, and what that
// group grants later too.
func TestGroups_ACallThatIsGivenUpLeavesNothing(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		for _, group := range []string{"a", "b", "c"} {
			v.Silence(kit.MembersOf(group)...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			got := kit.QueueFor(ctx, c, kit.OneOfEach(c, "k", "a", "b", "c"))
			pending := kit.Async(ctx, t, c, kit.OneOfEach(c, "l", "a", "b", "c"))
			time.Sleep(time.Second)
			synctest.Wait()
			for _, o := range []kit.Outcome{<-got, <-pending} {
				require.ErrorIs(t, o.Err, ctx.Err())
				require.Nil(t, o.Lease)
			}
			cancel()
			v.Speak(kit.MembersOf(group)...)
			time.Sleep(time.Minute)
			v.NothingLeft(t)
		}
	})
}
