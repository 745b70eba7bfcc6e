package groups

import (
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: extensions that a silent group holds up do not hold up those of other leases. Long
// leases wait for long, and there are more of them than batches at a time.
func TestGroups_ASilentOneHoldsUpNoExtensionOfTheOthers(t *testing.T) {
	t.Parallel()
	for _, silent := range []string{"a", "b"} {
		kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			for i := range 40 {
				keys := kit.OneOfEach(c, kit.KeysOf("long", 40)[i], "a", "b")
				v.HoldAll(t, c, keys, kit.Auto(kit.LongTTL, time.Hour)...)
				time.Sleep(200 * time.Millisecond)
			}
			short := []*lockpipe.Lease{
				v.HoldAll(t, c, kit.OneOfEach(c, "k", "c"),
					kit.Auto(300*time.Millisecond, time.Hour)...),
			}
			for _, group := range []string{"a", "b"} {
				if group != silent {
					short = append(short, v.HoldAll(t, c, kit.OneOfEach(c, "k", group),
						kit.Auto(300*time.Millisecond, time.Hour)...))
				}
			}
			time.Sleep(5 * time.Second)
			v.Silence(kit.MembersOf(silent)...)
			for range 200 {
				time.Sleep(100 * time.Millisecond)
				for _, l := range short {
					require.NoError(t, l.Err(), "%s after %v", l.Key(), silent)
				}
			}
			v.Speak(kit.MembersOf(silent)...)
		}, kit.Timeout(50*time.Millisecond))
	}
}

// The goal: while a group is down, extensions that can't succeed do not go to the other groups.
func TestGroups_AnOutageSparesTheOthersUselessExtensions(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"a", "b"} {
		withGroupCable(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client, k *groupCable) {
			l := v.HoldAll(t, c, kit.OneOfEach(c, "k", "a", "b"),
				kit.Auto(kit.LongTTL, time.Hour)...)
			k.unplug(t, c, group)
			sent := v.Sent()
			time.Sleep(40 * time.Second)
			require.Error(t, l.Extend(t.Context(), kit.LongTTL))
			require.Equal(t, sent, v.Sent(), "the lease is extended unsuccessfully")
			kit.Lasting(t, l)
			k.reconnected(t, c, group)
			time.Sleep(kit.LongTTL)
			kit.Lasting(t, l)
			kit.Release(t, l)
			v.NothingLeft(t)
		})
	}
}

// The goal: if one group does not confirm an extension, the lease ends when it would have, and its
// keys in the others too, which were extended.
func TestGroups_AnExtensionThatOneDoesNotConfirm(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"a", "b", "c"} {
		kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			l := v.HoldAll(t, c, kit.OneOfEach(c, "k", "a", "b", "c"),
				lockpipe.WithTTL(time.Second))
			until := l.Until()
			for _, i := range kit.MembersOf(group) {
				v.Fail(i, kit.ReadOnly)
			}
			kit.QuorumError(t, l.Extend(t.Context(), kit.LongTTL))
			require.Equal(t, until, l.Until())
			v.Heal(kit.MembersOf(group)...)
			time.Sleep(2 * time.Second)
			kit.Over(t, l, lockpipe.ErrExpired)
			v.NothingLeft(t)
		})
	}
}

// The goal: if a quorum of one group has lost the keys, an extension finds the lease lost, and the
// other groups are released.
func TestGroups_ALeaseThatOneHasLost(t *testing.T) {
	t.Parallel()
	for group := range 3 {
		kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			keys := kit.OneOfEach(c, "k", "a", "b", "c")
			l := v.HoldAll(t, c, keys)
			for _, i := range kit.Span(group*kit.GroupSize, group*kit.GroupSize+2) {
				v.Set(i, keys[group], "another")
			}
			require.ErrorIs(t, l.Extend(t.Context(), kit.LongTTL), lockpipe.ErrLost)
			kit.Over(t, l, lockpipe.ErrLost)
			time.Sleep(time.Second)
			for other, key := range keys {
				if other != group {
					v.OnlyOn(t, c, key, "")
				}
			}
		})
	}
}
