package multiplex

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/stretchr/testify/require"
)

// farThreshold is OverlapThreshold of a node that is far. It is node.MaxFlush if a node is near.
const farThreshold = 8

// observe lets one flush to the only node take this time.
func observe(t *testing.T, m *Mux, trip time.Duration) {
	t.Helper()
	n := m.nodes[0]
	send := n.SendFlush
	n.SendFlush = func(f *node.Flush) {
		time.Sleep(trip)
		all(node.Answer{Vote: node.Granted, Replied: true})(f)
	}
	c := claim(fmt.Sprint("observed ", time.Now()), "t")
	require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
	synctest.Wait()
	n.SendFlush = send
}

// The goal: the round-trip time comes from flushes that the node answered, not from those that were
// not sent.
func TestRTT_AFlushWithoutAnAnswerDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		n := m.nodes[0]
		observe(t, m, 3*time.Millisecond)
		n.SendFlush = all(node.Answer{LeftNothing: true, Err: node.ErrQueuedTooLong})
		require.Error(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), context.Background()))
		require.Equal(t, farThreshold, n.OverlapThreshold())
		n.SendFlush = func(f *node.Flush) {
			time.Sleep(50 * time.Microsecond)
			all(node.Answer{Replied: true, LeftNothing: true, Err: node.ErrQueuedTooLong})(f)
		}
		require.Error(t, wait(m.Acquire(claim("k2", "t"), time.Minute, 1), context.Background()))
		require.Equal(t, node.MaxFlush, n.OverlapThreshold())
	})
}

// The goal: while a flush is under way to a far node, another one leaves with few keys. To a near
// node it needs many. After a new connection it is not known any more that the node is far.
func TestRTT_SetsTheOverlapOfFlushes(t *testing.T) {
	for trip, few := range map[time.Duration]int{
		3 * time.Millisecond:  farThreshold,
		50 * time.Microsecond: node.MaxFlush,
	} {
		synctest.Test(t, func(t *testing.T) {
			m, _, stop := simulated(1, 1, 0)
			defer stop()
			n, gate, flushes := m.nodes[0], make(chan struct{}), 0
			answered := answeredBy(func(_ []*Attempt, answers []node.Answer) {
				<-gate
				for i := range answers {
					answers[i] = node.Answer{Vote: node.Granted, Replied: true}
				}
			})
			n.SendFlush = func(f *node.Flush) {
				flushes++ // one after the other begins
				answered(f)
			}
			observe(t, m, trip)
			add := func(keys int) int {
				c, all := new(Claim), make([]string, keys)
				for i := range all {
					all[i] = fmt.Sprint(keys, " ", i)
				}
				c.Init("", all, "t", "")
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
			observe(t, m, 3*time.Millisecond)
			require.Equal(t, farThreshold, n.OverlapThreshold())
			n.Link.SetState(link.Down, errBroken)
			n.Link.SetState(link.Up, nil)
			require.Equal(t, node.MaxFlush, n.OverlapThreshold())
		})
	}
}
