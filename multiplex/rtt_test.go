package multiplex

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: if no flush since the connect was quick, a flush of few keys leaves while another is
// under way. One quick flush is enough to change that, and slow ones behind it change nothing.
func TestRTT_OnlyAFarNodeOverlapsSmallFlushes(t *testing.T) {
	var d rtt
	require.Equal(t, nearThreshold, d.overlapThreshold(), "nothing is known yet")
	d.observe(3 * time.Millisecond)
	require.Equal(t, farThreshold, d.overlapThreshold())
	d.observe(farRTT)
	require.Equal(t, farThreshold, d.overlapThreshold())
	d.observe(farRTT - 1)
	require.Equal(t, nearThreshold, d.overlapThreshold())
	d.observe(time.Second)
	require.Equal(t, nearThreshold, d.overlapThreshold())
	d.reset()
	d.observe(time.Second)
	require.Equal(t, farThreshold, d.overlapThreshold(), "another connection may have another way")
}

// The goal: the round-trip time comes from flushes that the node answered, not from those that were
// not sent.
func TestRTT_AFlushWithoutAnAnswerDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		n := m.nodes[0]
		n.rtt.observe(3 * time.Millisecond)
		n.sendFlush = all(answer{leftNothing: true, err: errQueuedTooLong})
		require.Error(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), context.Background()))
		require.Equal(t, farThreshold, n.rtt.overlapThreshold())
		n.sendFlush = func(f *flush) {
			time.Sleep(50 * time.Microsecond)
			all(answer{replied: true, leftNothing: true, err: errQueuedTooLong})(f)
		}
		require.Error(t, wait(m.Acquire(claim("k2", "t"), time.Minute, 1), context.Background()))
		require.Equal(t, nearThreshold, n.rtt.overlapThreshold())
	})
}

// The goal: while a flush is under way to a far node, another one leaves with few keys. To a near
// node it needs many. After a new connection it is not known any more that the node is far.
func TestRTT_SetsTheOverlapOfFlushes(t *testing.T) {
	for trip, few := range map[time.Duration]int{
		3 * time.Millisecond:  farThreshold,
		50 * time.Microsecond: nearThreshold,
	} {
		synctest.Test(t, func(t *testing.T) {
			m, _, stop := simulated(1, 1, 0)
			defer stop()
			n, gate, flushes := m.nodes[0], make(chan struct{}), 0
			n.sendFlush = func(f *flush) {
				flushes++ // one after the other begins
				f.rounds.Sent()
				<-gate
				all(answer{vote: granted, replied: true})(f)
			}
			n.rtt.observe(trip)
			add := func(keys int) int {
				c, all := new(Claim), make([]string, keys)
				for i := range all {
					all[i] = fmt.Sprint(keys, " ", i)
				}
				c.Init("", all, "t")
				m.Acquire(c, time.Minute, keys)
				synctest.Wait()
				return flushes
			}
			require.Equal(t, 1, add(2))
			require.Equal(t, 1, add(few-1))
			require.Equal(t, 2, add(1))
			close(gate)
			synctest.Wait()
			// In the bubble the others took no time, as if there had been none.
			n.rtt.observe(3 * time.Millisecond)
			require.Equal(t, farThreshold, n.rtt.overlapThreshold())
			n.link.SetState(NodeDown, errBroken)
			n.link.SetState(NodeUp, nil)
			require.Equal(t, nearThreshold, n.rtt.overlapThreshold())
		})
	}
}
