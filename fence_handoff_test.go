package lockpipe_test

import (
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/fence"
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
		inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
			var seen fence.Checker
			other := v.shifted(t, shift)
			first := v.hold(t, c, "k", lockpipe.WithFencing())
			var all []<-chan outcome
			for range 9 {
				all = append(all, queue(t, c, "k", lockpipe.WithFencing()))
			}
			passed(t, &seen, first) // nobody waited when it was taken: it is really released
			l := granted(t, all[0])
			require.NotEqual(t, first.Token(), l.Token())
			before, number := c.Stats().Operations, l.Fence()
			for _, next := range all[1:] {
				require.Equal(t, number, l.Fence())
				passed(t, &seen, l)
				l = granted(t, next)
				number++
			}
			require.Equal(t, before, c.Stats().Operations)
			passed(t, &seen, l)
			fenced(t, other, &seen, "k")
			fenced(t, c, &seen, "k")
			v.onlyCompanions(t)
		})
	}
}

// The goal: the numbers last for as many handoffs as there may be, and for none more.
func TestFence_HandedOnesRunOut(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		var seen fence.Checker
		l := v.hold(t, c, "k", lockpipe.WithFencing())
		var all []<-chan outcome
		for range 2010 {
			all = append(all, queue(t, c, "k", lockpipe.WithFencing()))
		}
		tokens := map[string]int{}
		for _, next := range all {
			require.True(t, seen.Allow("k", l.Fence()))
			release(t, l)
			o := <-next
			require.NoError(t, o.err)
			l = o.lease
			tokens[l.Token()]++
		}
		require.Len(t, tokens, 3)
		passed(t, &seen, l)
		fenced(t, v.shifted(t, -time.Hour), &seen, "k")
	})
}

// The goal: when the process has run ahead of the wall clock as far as it may, leases are released,
// not handed over. The order of the calls stays.
func TestFence_WithoutNumbersLeftALeaseIsReleased(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, ahead *lockpipe.Client) {
		var seen fence.Checker
		lockpipe.ShiftClock(ahead, time.Hour)
		fenced(t, ahead, &seen, "k")
		c := v.client(t)
		l := try(t, c, "k", lockpipe.WithFencing())
		var all []<-chan outcome
		for range 5 {
			all = append(all, queue(t, c, "k", lockpipe.WithFencing()))
		}
		for _, next := range all {
			token := l.Token()
			passed(t, &seen, l)
			l = granted(t, next)
			require.NotEqual(t, token, l.Token())
		}
		passed(t, &seen, l)
		require.Zero(t, c.Stats().Handovers)
		v.onlyCompanions(t)
	})
}

// The goal: a call with fencing is never handed a lease for which the nodes know no fence. A call
// without fencing may be handed one that has a fence, and the call after it continues with its
// numbers.
func TestFence_FencedAndOtherCallersWaitTogether(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		var seen fence.Checker
		plain := v.hold(t, c, "k")
		first, second := queue(t, c, "k", lockpipe.WithFencing()), queue(t, c, "k")
		third, fourth := queue(t, c, "k", lockpipe.WithFencing()), queue(t, c, "k")
		release(t, plain)
		time.Sleep(time.Second)
		l := granted(t, first)
		require.NotEqual(t, plain.Token(), l.Token())
		token := l.Token()
		passed(t, &seen, l)
		l = granted(t, second)
		require.Equal(t, token, l.Token())
		require.Zero(t, l.Fence())
		release(t, l)
		require.Zero(t, l.Fence())
		l = granted(t, third)
		require.Equal(t, token, l.Token())
		passed(t, &seen, l)
		release(t, granted(t, fourth))
		fenced(t, v.shifted(t, -time.Hour), &seen, "k")
		v.onlyCompanions(t)
	})
}
