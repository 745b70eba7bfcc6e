package batch

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// The goal: the three branches of a cancellation. Not sent: dropped, and Done is never called.
func TestCancel_BeforeSendingDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := s.pipeline(nil)
		enqueue(t, p, 1)
		synctest.Wait()
		calls := enqueue(t, p, 2, 3)
		require.True(t, p.Cancel(calls[0]))
		require.True(t, p.Cancel(calls[0]), "cancelling again changes nothing")
		close(s.gate)
		synctest.Wait()
		require.Equal(t, [][]int{{1}, {3}}, s.flushes)
		require.Equal(t, map[int]int{1: 1, 3: 1}, s.done)
	})
}

// The goal: a call that was answered first is not cancelled.
func TestCancel_AfterTheAnswerIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := s.pipeline(nil)
		close(s.gate)
		call := enqueue(t, p, 1)[0]
		synctest.Wait()
		require.False(t, p.Cancel(call))
		require.Equal(t, 1, s.done[1])
	})
}

// The goal: a call that was sent is not cancelled, and its late answer comes.
func TestCancel_WhatIsSentStillGetsItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := s.pipeline(nil)
		call := enqueue(t, p, 1)[0]
		synctest.Wait()
		require.False(t, p.Cancel(call))
		require.Empty(t, s.done)
		close(s.gate)
		synctest.Wait()
		require.Equal(t, 1, s.done[1])
	})
}

// The goal: a flush of which everything was cancelled is not made, and the pipeline continues.
func TestCancel_NothingIsSentIfAllIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := s.pipeline(nil)
		enqueue(t, p, 1)
		synctest.Wait()
		for _, c := range enqueue(t, p, 2, 3) {
			p.Cancel(c)
		}
		close(s.gate)
		synctest.Wait()
		require.Len(t, s.flushes, 1)
		enqueue(t, p, 4)
		synctest.Wait()
		require.Equal(t, map[int]int{1: 1, 4: 1}, s.done)
	})
}

// The goal: what is cancelled behind a flush that hangs does not pile up, and does not use up the
// room of others.
func TestCancel_CancelledOperationsDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := s.pipeline(func(c *Config[int, int]) { c.Limit = 4 * compactFrom })
		enqueue(t, p, 1)
		synctest.Wait()
		kept := enqueue(t, p, 2)
		for i := range 50 * compactFrom {
			p.Cancel(enqueue(t, p, i+3)[0])
			require.LessOrEqual(t, p.Waiting(), 2*compactFrom+2)
		}
		close(s.gate)
		synctest.Wait()
		require.Equal(t, map[int]int{1: 1, 2: 1}, s.done)
		require.False(t, p.Cancel(kept[0]))
		require.Zero(t, p.Waiting())
		require.Zero(t, p.weight)
		require.Zero(t, p.limited)
		require.Zero(t, p.cancelled.Load())
	})
}

// The goal: what was cancelled does not use up the room of others.
func TestCancel_CancelledOperationsLeaveTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := s.pipeline(func(c *Config[int, int]) { c.Limit = 2 * compactFrom })
		enqueue(t, p, 1)
		synctest.Wait()
		for i := range 2 * compactFrom {
			c := enqueue(t, p, i+2)[0]
			defer p.Cancel(c)
			if i > 0 {
				p.Cancel(c)
			}
		}
		enqueue(t, p, 2*compactFrom+2)
		close(s.gate)
		synctest.Wait()
	})
}
