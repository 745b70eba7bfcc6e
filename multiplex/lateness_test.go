package multiplex

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: nodes owe nothing for the time in which the process was late, also before its timer
// says so.
func TestLateness_CountsFromATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		start, l := time.Now(), new(lateness)
		after := func(begin, d time.Duration) time.Duration { // when so much time is over
			time.Sleep(time.Until(start.Add(d)))
			return l.since(start.Add(begin))
		}
		require.Zero(t, after(0, 1000*ms), "the timer is not set")
		l.looked(100 * ms)
		require.Zero(t, after(0, 1104*ms), "an ordinary delay")
		require.Equal(t, 30*ms, after(0, 1130*ms), "the timer is late")
		require.Equal(t, 50*ms, after(0, 1150*ms))
		l.looked(0) // it fires
		require.Equal(t, 50*ms, after(0, 1150*ms))
		require.Equal(t, 20*ms, after(1130*ms, 1150*ms))
		require.Equal(t, 70*ms, after(0, 1170*ms), "the process stopped before it set the timer")
		l.looked(100 * ms)
		require.Equal(t, 70*ms, after(0, 1270*ms))
		l.looked(-1)
		require.Equal(t, 70*ms, after(0, time.Minute), "nobody waits")
		require.Zero(t, after(1170*ms, time.Minute))
	})
}

// The goal: a process that is late at each look still gives a node up.
func TestLateness_EndsAlsoIfEachLookIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 80 * time.Millisecond
		start, l, looks := time.Now(), new(lateness), 0
		for ; time.Since(start)-l.since(start) < timeout; looks++ {
			l.looked(timeout / looksOfNode)
			time.Sleep(time.Second)
			l.looked(0)
		}
		require.Equal(t, looksOfNode, looks)
	})
}
