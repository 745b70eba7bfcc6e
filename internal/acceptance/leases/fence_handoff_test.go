package leases

import (
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/fence"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: each holder of the process gets the next number, without a trip. The next holder in
// another process, whatever its clock, gets a higher one than all of them.
func TestFence_AHandoffGivesTheNextOne(t *testing.T) {
	t.Parallel()
	for _, shift := range []time.Duration{
		0, -time.Hour, -time.Microsecond, time.Microsecond,
		5 * time.Microsecond,
	} {
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			var seen fence.Checker
			other := v.Shifted(t, shift)
			first := v.Hold(t, c, "k", lockpipe.WithFencing())
			var all []<-chan kit.Outcome
			for range 9 {
				all = append(all, kit.Queue(t, c, "k", lockpipe.WithFencing()))
			}
			kit.Passed(t, &seen, first) // nobody waited when it was taken: it is really released
			l := kit.Granted(t, all[0])
			require.NotEqual(t, first.Token(), l.Token())
			before, number := c.Stats().Operations, l.Fence()
			for _, next := range all[1:] {
				require.Equal(t, number, l.Fence())
				kit.Passed(t, &seen, l)
				l = kit.Granted(t, next)
				number++
			}
			require.Equal(t, before, c.Stats().Operations)
			kit.Passed(t, &seen, l)
			kit.Fenced(t, other, &seen, "k")
			kit.Fenced(t, c, &seen, "k")
			v.OnlyCompanions(t)
		})
	}
}

// The goal: the numbers last for as many handoffs as there may be, and for none more.
func TestFence_HandedOnesRunOut(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		var seen fence.Checker
		l := v.Hold(t, c, "k", lockpipe.WithFencing())
		var all []<-chan kit.Outcome
		for range 2010 {
			all = append(all, kit.Queue(t, c, "k", lockpipe.WithFencing()))
		}
		tokens := map[string]int{}
		for _, next := range all {
			require.True(t, seen.Allow("k", l.Fence()))
			kit.Release(t, l)
			o := <-next
			require.NoError(t, o.Err)
			l = o.Lease
			tokens[l.Token()]++
		}
		require.Len(t, tokens, 3)
		kit.Passed(t, &seen, l)
		kit.Fenced(t, v.Shifted(t, -time.Hour), &seen, "k")
	})
}

// The goal: when the process has run ahead of the wall clock as far as it may, leases are released,
// not handed over. The order of the calls stays.
func TestFence_WithoutNumbersLeftALeaseIsReleased(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, ahead *lockpipe.Client) {
		var seen fence.Checker
		kit.ShiftClock(ahead, time.Hour)
		kit.Fenced(t, ahead, &seen, "k")
		c := v.Client(t)
		l := kit.Try(t, c, "k", lockpipe.WithFencing())
		var all []<-chan kit.Outcome
		for range 5 {
			all = append(all, kit.Queue(t, c, "k", lockpipe.WithFencing()))
		}
		for _, next := range all {
			token := l.Token()
			kit.Passed(t, &seen, l)
			l = kit.Granted(t, next)
			require.NotEqual(t, token, l.Token())
		}
		kit.Passed(t, &seen, l)
		require.Zero(t, c.Stats().Handovers)
		v.OnlyCompanions(t)
	})
}

// The goal: a call with fencing is never handed a lease for which the nodes know no fence. A call
// without fencing may be handed one that has a fence, and the call after it continues with its
// numbers.
func TestFence_FencedAndOtherCallersWaitTogether(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		var seen fence.Checker
		plain := v.Hold(t, c, "k")
		first, second := kit.Queue(t, c, "k", lockpipe.WithFencing()), kit.Queue(t, c, "k")
		third, fourth := kit.Queue(t, c, "k", lockpipe.WithFencing()), kit.Queue(t, c, "k")
		kit.Release(t, plain)
		time.Sleep(time.Second)
		l := kit.Granted(t, first)
		require.NotEqual(t, plain.Token(), l.Token())
		token := l.Token()
		kit.Passed(t, &seen, l)
		l = kit.Granted(t, second)
		require.Equal(t, token, l.Token())
		require.Zero(t, l.Fence())
		kit.Release(t, l)
		require.Zero(t, l.Fence())
		l = kit.Granted(t, third)
		require.Equal(t, token, l.Token())
		kit.Passed(t, &seen, l)
		kit.Release(t, kit.Granted(t, fourth))
		kit.Fenced(t, v.Shifted(t, -time.Hour), &seen, "k")
		v.OnlyCompanions(t)
	})
}
