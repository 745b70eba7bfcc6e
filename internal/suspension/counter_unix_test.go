//go:build linux || darwin

package suspension

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: the operating system's clocks can be read here, agree from reading to reading, and say
// that the machine was not suspended before it was started.
func TestSuspension_TheGapOfTheClocks(t *testing.T) {
	least, most, err := clockGap()
	require.NoError(t, err)
	for range 100 {
		uptime, err := readClock(continuingClock)
		require.NoError(t, err)
		l, m, err := clockGap()
		require.NoError(t, err)
		require.LessOrEqual(t, l, m)
		least, most = max(least, l), min(most, m)
		require.LessOrEqual(t, least, most, "as if suspended")
		require.GreaterOrEqual(t, most, time.Duration(0))
		require.LessOrEqual(t, least, uptime)
		const years = 365 * 24 * time.Hour
		require.Less(t, uptime, 20*years, "the wall clock counts from 1970")
	}
	look := Counter()
	require.NotNil(t, look)
	require.Zero(t, look(time.Now()))
}

func BenchmarkCounter(b *testing.B) {
	look := Counter()
	b.Run("look", func(b *testing.B) {
		for b.Loop() {
			_ = look(time.Now())
		}
	})
	b.Run("now", func(b *testing.B) {
		for b.Loop() {
			_ = time.Now()
		}
	})
	b.Run("gap", func(b *testing.B) {
		for b.Loop() {
			_, _, _ = clockGap()
		}
	})
}
