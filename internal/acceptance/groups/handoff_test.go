package groups

import (
	"context"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/fence"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// oneBehind returns a lease that came by the queue of the process, and a call that waits behind it.
func oneBehind(t *testing.T, c *lockpipe.Client, keys []string, opts ...lockpipe.Option,
) (*lockpipe.Lease, <-chan kit.Outcome) {
	t.Helper()
	// Nobody waits for all of these: it is really released.
	before, err := c.TryAcquireAll(t.Context(), append([]string{"beside"}, keys...))
	require.NoError(t, err)
	first := kit.QueueFor(t.Context(), c, keys, opts...)
	second := kit.QueueFor(t.Context(), c, keys, opts...)
	kit.Release(t, before)
	time.Sleep(time.Second)
	return kit.Granted(t, first), second
}

// The goal: a lease of several groups is handed to the next call of the process without a trip,
// with a fence of its own, and the last holder's release clears all groups.
func TestGroups_ALeaseIsHandedOver(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys := kit.OneOfEach(c, "k", "b", "c", "a")
		var seen fence.Checker
		l, second := oneBehind(t, c, keys, lockpipe.WithFencing())
		third := kit.Async(t.Context(), t, c, keys, lockpipe.WithFencing())
		for _, next := range []<-chan kit.Outcome{second, third} {
			for _, key := range keys {
				require.True(t, seen.Allow(key, l.Fence()))
			}
			sent := v.Sent()
			kit.Release(t, l)
			kit.Over(t, l, lockpipe.ErrReleased)
			after := kit.Granted(t, next)
			require.Equal(t, sent, v.Sent(), "something was sent")
			require.Equal(t, l.Token(), after.Token())
			require.Equal(t, keys, after.Keys())
			require.Greater(t, after.Fence(), l.Fence())
			v.HeldBy(t, c, after)
			l = after
		}
		require.EqualValues(t, 2, c.Stats().Handovers)
		kit.Release(t, l)
		v.OnlyCompanions(t)
		require.Equal(t, 0, c.Stats().Held)
	})
}

// The goal: instead of a handover that has too little time left, the call asks all groups, behind
// the release. If one of them can't grant, the call holds nothing in the others.
func TestGroups_ACallThatWantsMoreTimeAsksAllGroups(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys := kit.OneOfEach(c, "k", "a", "b", "c")
		for _, works := range []bool{true, false} {
			l, next := oneBehind(t, c, keys)
			time.Sleep(kit.LongTTL / 2)
			if !works {
				for _, i := range kit.MembersOf("c") {
					v.Fail(i, kit.ReadOnly)
				}
			}
			token := l.Token()
			kit.Release(t, l)
			time.Sleep(time.Second)
			if works {
				l = kit.Granted(t, next)
				require.NotEqual(t, token, l.Token())
				require.Greater(t, time.Until(l.Until()), kit.LongTTL-3*time.Second)
				v.HeldBy(t, c, l)
				kit.Release(t, l)
				v.NothingLeft(t)
				continue
			}
			kit.Waits(t, next)
			for _, key := range keys[:2] {
				v.OnlyOn(t, c, key, "")
			}
			v.Heal(kit.MembersOf("c")...)
			time.Sleep(5 * time.Second)
			l = kit.Granted(t, next)
			require.NotEqual(t, token, l.Token())
			kit.Lasting(t, l)
			kit.Release(t, l)
			v.NothingLeft(t)
		}
	})
}

// The goal: Close releases leases of several groups that are held, and ends calls that wait for
// them. So does ReleaseAll, and the error names those that are not confirmed.
func TestGroups_CloseAndReleaseAll(t *testing.T) {
	t.Parallel()
	withGroupCable(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client, k *groupCable) {
		var leases []*lockpipe.Lease
		for _, name := range []string{"k", "l", "m"} {
			leases = append(leases, v.HoldAll(t, c, kit.OneOfEach(c, name, "c", "a", "b")))
		}
		require.NoError(t, c.ReleaseAll(t.Context(), leases...))
		v.NothingLeft(t)

		whole := v.HoldAll(t, c, kit.OneOfEach(c, "k", "a", "b"),
			kit.Auto(kit.LongTTL, time.Hour)...)
		part := v.HoldAll(t, c, kit.OneOfEach(c, "l", "b", "c"))
		waiting := kit.QueueFor(t.Context(), c, kit.OneOfEach(c, "k", "c", "b"))
		pending := kit.Async(t.Context(), t, c, kit.OneOfEach(c, "l", "a", "c"))
		k.unplug(t, c, "c")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.Close(ctx)
		require.ErrorContains(t, err, "1 of 2 leases")
		require.ErrorContains(t, err, part.Key())
		for _, l := range []*lockpipe.Lease{whole, part} {
			kit.Over(t, l, lockpipe.ErrClosed)
		}
		require.ErrorIs(t, (<-waiting).Err, lockpipe.ErrClosed)
		require.ErrorIs(t, (<-pending).Err, lockpipe.ErrClosed)
		for _, key := range append(whole.Keys(), part.Key()) {
			v.OnlyOn(t, c, key, "")
		}
	})
}
