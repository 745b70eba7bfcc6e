package lockpipe_test

import (
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// The goal: extensions that a silent group holds up do not hold up those of other leases. Long
// leases wait for long, and there are more of them than batches at a time.
func TestGroups_ASilentOneHoldsUpNoExtensionOfTheOthers(t *testing.T) {
	t.Parallel()
	for _, silent := range []string{"a", "b"} {
		inGroupBubble(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
			for i := range 40 {
				keys := oneOfEach(c, keysOf("long", 40)[i], "a", "b")
				v.holdAll(t, c, keys, auto(longTTL, time.Hour)...)
				time.Sleep(200 * time.Millisecond)
			}
			short := []*lockpipe.Lease{
				v.holdAll(t, c, oneOfEach(c, "k", "c"), auto(300*time.Millisecond, time.Hour)...),
			}
			for _, group := range []string{"a", "b"} {
				if group != silent {
					short = append(short, v.holdAll(t, c, oneOfEach(c, "k", group),
						auto(300*time.Millisecond, time.Hour)...))
				}
			}
			time.Sleep(5 * time.Second)
			v.silence(membersOf(silent)...)
			for range 200 {
				time.Sleep(100 * time.Millisecond)
				for _, l := range short {
					require.NoError(t, l.Err(), "%s after %v", l.Key(), silent)
				}
			}
			v.speak(membersOf(silent)...)
		}, timeout(50*time.Millisecond))
	}
}

// The goal: while a group is down, extensions that can't succeed do not go to the other groups.
func TestGroups_AnOutageSparesTheOthersUselessExtensions(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"a", "b"} {
		withGroupCable(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client, k *groupCable) {
			l := v.holdAll(t, c, oneOfEach(c, "k", "a", "b"), auto(longTTL, time.Hour)...)
			k.unplug(t, c, group)
			sent := v.sent()
			time.Sleep(40 * time.Second)
			require.Error(t, l.Extend(t.Context(), longTTL))
			require.Equal(t, sent, v.sent(), "the lease is extended unsuccessfully")
			lasting(t, l)
			k.reconnected(t, c, group)
			time.Sleep(longTTL)
			lasting(t, l)
			release(t, l)
			v.nothingLeft(t)
		})
	}
}

// The goal: if one group does not confirm an extension, the lease ends when it would have, and its
// keys in the others too, which were extended.
func TestGroups_AnExtensionThatOneDoesNotConfirm(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"a", "b", "c"} {
		inGroupBubble(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
			l := v.holdAll(t, c, oneOfEach(c, "k", "a", "b", "c"), lockpipe.WithTTL(time.Second))
			until := l.Until()
			for _, i := range membersOf(group) {
				v.fail(i, readOnly)
			}
			quorumError(t, l.Extend(t.Context(), longTTL))
			require.Equal(t, until, l.Until())
			v.heal(membersOf(group)...)
			time.Sleep(2 * time.Second)
			over(t, l, lockpipe.ErrExpired)
			v.nothingLeft(t)
		})
	}
}

// The goal: if a quorum of one group has lost the keys, an extension finds the lease lost, and the
// other groups are released.
func TestGroups_ALeaseThatOneHasLost(t *testing.T) {
	t.Parallel()
	for group := range 3 {
		inGroupBubble(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
			keys := oneOfEach(c, "k", "a", "b", "c")
			l := v.holdAll(t, c, keys)
			for _, i := range span(group*groupSize, group*groupSize+2) {
				v.set(i, keys[group], "another")
			}
			require.ErrorIs(t, l.Extend(t.Context(), longTTL), lockpipe.ErrLost)
			over(t, l, lockpipe.ErrLost)
			time.Sleep(time.Second)
			for other, key := range keys {
				if other != group {
					v.onlyOn(t, c, key, "")
				}
			}
		})
	}
}
