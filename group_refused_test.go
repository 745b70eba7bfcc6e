package lockpipe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// acquiringAll are the names of the calls of acquiring that want all keys under one lease.
var acquiringAll = []string{"TryAcquireAll", "AcquireAll", "DoAll"}

// The goal: if another holds a key of one group, the error names that key and the nodes of its
// group, and nothing is left on the nodes of the others.
func TestGroups_ARefusedPartReleasesTheOthers(t *testing.T) {
	t.Parallel()
	inGroupBubble(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		other := v.client(t, inGroups(groupSize))
		for _, group := range []string{"a", "b", "c"} {
			keys := oneOfEach(c, "k", "a", "b", "c")
			held := v.holdAll(t, other, []string{keyIn(c, group, "k")})
			for _, name := range acquiringAll {
				try := acquiring[name]
				err := try(t.Context(), c, keys, lockpipe.WithMaxAttempts(2))
				var e *lockpipe.HeldError
				require.ErrorAs(t, err, &e, name)
				require.Equal(t, []string{held.Key()}, e.Keys, name)
				require.Subset(t, v.names(membersOf(group)...), e.Nodes, name)
				require.GreaterOrEqual(t, len(e.Nodes), 2, name)
				synctest.Wait()
				for _, key := range keys {
					want := ""
					if key == held.Key() {
						want = held.Token()
					}
					v.onlyOn(t, c, key, want)
				}
			}
			release(t, held)
			v.nothingLeft(t)
		}
	})
}

// The goal: while a call waits for a key of one group, it holds none of the others.
func TestGroups_NothingIsHeldWhileACallWaits(t *testing.T) {
	t.Parallel()
	inGroupBubble(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		other := v.client(t, inGroups(groupSize))
		keys := oneOfEach(c, "k", "a", "b", "c")
		held := v.holdAll(t, other, keys[1:2])
		waiting := queueFor(t.Context(), c, keys)
		pending := async(t.Context(), t, other, []string{keys[2], keys[1]})
		for range 20 {
			time.Sleep(777 * time.Millisecond)
			synctest.Wait()
			for _, key := range []string{keys[0], keys[2]} {
				l, err := other.TryAcquire(t.Context(), key)
				require.NoError(t, err)
				release(t, l)
			}
		}
		waits(t, waiting)
		release(t, held)
		time.Sleep(time.Second)
		release(t, granted(t, waiting)) // it came first
		time.Sleep(time.Second)
		release(t, granted(t, pending))
		v.nothingLeft(t)
	})
}

// The goal: a group without a quorum fails the lease with the nodes of that group, and what the
// others granted is released.
func TestGroups_APartWithoutAQuorumReleasesTheOthers(t *testing.T) {
	t.Parallel()
	inGroupBubble(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		for _, group := range []string{"a", "b", "c"} {
			keys := oneOfEach(c, "k", "a", "b", "c")
			bad := membersOf(group)[1:]
			for _, i := range bad {
				v.fail(i, readOnly)
			}
			for _, name := range acquiringAll {
				try := acquiring[name]
				q := quorumError(t, try(t.Context(), c, keys, lockpipe.WithMaxAttempts(2)))
				require.Equal(t, 2, q.Need, name)
				require.LessOrEqual(t, q.Granted, 1, name)
				var named []string
				for _, n := range q.Nodes {
					named = append(named, n.Node)
				}
				require.Subset(t, named, v.names(bad...), name)
				require.Subset(t, v.names(membersOf(group)...), named, name)
				synctest.Wait()
				for _, key := range keys {
					v.onlyOn(t, c, key, "")
				}
			}
			v.heal(bad...)
			time.Sleep(time.Second)
			v.nothingLeft(t)
		}
	})
}

// The goal: if one group refuses and another has no quorum, the error is that a key is held: more
// attempts wait for that.
func TestGroups_HeldCountsBeforeNoQuorum(t *testing.T) {
	t.Parallel()
	inGroupBubble(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		keys := oneOfEach(c, "k", "a", "b", "c")
		for _, i := range membersOf("a") {
			v.fail(i, readOnly)
		}
		held := v.holdAll(t, v.client(t, inGroups(groupSize)), keys[2:])
		_, err := c.TryAcquireAll(t.Context(), keys)
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.NotErrorIs(t, err, lockpipe.ErrNoQuorum)
		synctest.Wait()
		v.onlyOn(t, c, keys[1], "")
		release(t, held)
		v.nothingLeft(t)
	})
}

// The goal: if ctx ends while a group has not answered, the others are released, and what that
// group grants later too.
func TestGroups_ACallThatIsGivenUpLeavesNothing(t *testing.T) {
	t.Parallel()
	inGroupBubble(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		for _, group := range []string{"a", "b", "c"} {
			v.silence(membersOf(group)...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			got := queueFor(ctx, c, oneOfEach(c, "k", "a", "b", "c"))
			pending := async(ctx, t, c, oneOfEach(c, "l", "a", "b", "c"))
			time.Sleep(time.Second)
			synctest.Wait()
			for _, o := range []outcome{<-got, <-pending} {
				require.ErrorIs(t, o.err, ctx.Err())
				require.Nil(t, o.lease)
			}
			cancel()
			v.speak(membersOf(group)...)
			time.Sleep(time.Minute)
			v.nothingLeft(t)
		}
	})
}
