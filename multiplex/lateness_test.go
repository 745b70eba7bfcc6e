package multiplex

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: a process that was late waits for its nodes for as long again, within a limit. One that
// is always late still gives a node up.
func TestLateness_IsMadeUpForOnce(t *testing.T) {
	l := lateness{limit: 50 * time.Millisecond}
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	require.LessOrEqual(t, l.grace(start, lateAfter-1), time.Duration(0), "an ordinary delay")
	require.Zero(t, l.since(at(-1000)))
	require.Equal(t, 30*time.Millisecond, l.grace(at(0), 30*time.Millisecond))
	require.Equal(t, 10*time.Millisecond, l.grace(at(20), 40*time.Millisecond), "it waits already")
	require.LessOrEqual(t, l.grace(at(79), time.Second), time.Duration(0), "it has just waited")
	require.Equal(t, 30*time.Millisecond, l.since(at(20)))
	require.Zero(t, l.since(at(31)), "what began later was not late")
	require.Equal(t, 50*time.Millisecond, l.grace(at(80), time.Hour))
	require.Equal(t, time.Hour, l.since(at(100)))
}
