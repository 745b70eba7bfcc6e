package lockpipe_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/fence"
	"github.com/stretchr/testify/require"
)

// oneBehind returns a lease that came by the queue of the process, and a call that waits behind it.
func oneBehind(t *testing.T, c *lockpipe.Client, keys []string, opts ...lockpipe.Option,
) (*lockpipe.Lease, <-chan outcome) {
	t.Helper()
	// Nobody waits for all of these: it is really released.
	before, err := c.TryAcquireAll(t.Context(), append([]string{"beside"}, keys...))
	require.NoError(t, err)
	first := queueFor(t.Context(), c, keys, opts...)
	second := queueFor(t.Context(), c, keys, opts...)
	release(t, before)
	time.Sleep(time.Second)
	return granted(t, first), second
}

// The goal: a lease of several groups is handed to the next call of the process without a trip,
// with a fence of its own, and the last holder's release clears all groups.
func TestGroups_ALeaseIsHandedOver(t *testing.T) {
	t.Parallel()
	inGroupBubble(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		keys := oneOfEach(c, "k", "b", "c", "a")
		var seen fence.Checker
		l, second := oneBehind(t, c, keys, lockpipe.WithFencing())
		third := async(t.Context(), t, c, keys, lockpipe.WithFencing())
		for _, next := range []<-chan outcome{second, third} {
			for _, key := range keys {
				require.True(t, seen.Allow(key, l.Fence()))
			}
			sent := v.sent()
			release(t, l)
			over(t, l, lockpipe.ErrReleased)
			after := granted(t, next)
			require.Equal(t, sent, v.sent(), "something was sent")
			require.Equal(t, l.Token(), after.Token())
			require.Equal(t, keys, after.Keys())
			require.Greater(t, after.Fence(), l.Fence())
			v.heldBy(t, c, after)
			l = after
		}
		require.EqualValues(t, 2, c.Stats().Handovers)
		release(t, l)
		v.onlyCompanions(t)
		require.Equal(t, 0, c.Stats().Held)
	})
}

// The goal: instead of a handover that has too little time left, the call asks all groups, behind
// the release. If one of them can't grant, the call holds nothing in the others.
func TestGroups_ACallThatWantsMoreTimeAsksAllGroups(t *testing.T) {
	t.Parallel()
	inGroupBubble(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		keys := oneOfEach(c, "k", "a", "b", "c")
		for _, works := range []bool{true, false} {
			l, next := oneBehind(t, c, keys)
			time.Sleep(longTTL / 2)
			if !works {
				for _, i := range membersOf("c") {
					v.fail(i, readOnly)
				}
			}
			token := l.Token()
			release(t, l)
			time.Sleep(time.Second)
			if works {
				l = granted(t, next)
				require.NotEqual(t, token, l.Token())
				require.Greater(t, time.Until(l.Until()), longTTL-3*time.Second)
				v.heldBy(t, c, l)
				release(t, l)
				v.nothingLeft(t)
				continue
			}
			waits(t, next)
			for _, key := range keys[:2] {
				v.onlyOn(t, c, key, "")
			}
			v.heal(membersOf("c")...)
			time.Sleep(5 * time.Second)
			l = granted(t, next)
			require.NotEqual(t, token, l.Token())
			lasting(t, l)
			release(t, l)
			v.nothingLeft(t)
		}
	})
}

// The goal: Close releases leases of several groups that are held, and ends calls that wait for
// them. So does ReleaseAll, and the error names those that are not confirmed.
func TestGroups_CloseAndReleaseAll(t *testing.T) {
	t.Parallel()
	withGroupCable(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client, k *groupCable) {
		var leases []*lockpipe.Lease
		for _, name := range []string{"k", "l", "m"} {
			leases = append(leases, v.holdAll(t, c, oneOfEach(c, name, "c", "a", "b")))
		}
		require.NoError(t, c.ReleaseAll(t.Context(), leases...))
		v.nothingLeft(t)

		whole := v.holdAll(t, c, oneOfEach(c, "k", "a", "b"), auto(longTTL, time.Hour)...)
		part := v.holdAll(t, c, oneOfEach(c, "l", "b", "c"))
		waiting := queueFor(t.Context(), c, oneOfEach(c, "k", "c", "b"))
		pending := async(t.Context(), t, c, oneOfEach(c, "l", "a", "c"))
		k.unplug(t, c, "c")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.Close(ctx)
		require.ErrorContains(t, err, "1 of 2 leases")
		require.ErrorContains(t, err, part.Key())
		for _, l := range []*lockpipe.Lease{whole, part} {
			over(t, l, lockpipe.ErrClosed)
		}
		require.ErrorIs(t, (<-waiting).err, lockpipe.ErrClosed)
		require.ErrorIs(t, (<-pending).err, lockpipe.ErrClosed)
		for _, key := range append(whole.Keys(), part.Key()) {
			v.onlyOn(t, c, key, "")
		}
	})
}
