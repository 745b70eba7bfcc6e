package lockpipe

import (
	"math"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/stats"
	"github.com/stretchr/testify/require"
)

// The goal: quantiles are near the durations, and there is one also at the ends and for nothing.
func TestLatency_Quantile(t *testing.T) {
	var h stats.Histogram
	now := func() LatencyHistogram { return LatencyHistogram{h.Snapshot()} }
	require.Zero(t, now().Quantile(0.5))
	for range 90 {
		h.Observe(800 * time.Microsecond) // in (500us, 1ms]
	}
	for range 10 {
		h.Observe(40 * time.Millisecond) // in (25ms, 50ms]
	}
	c := now()
	require.Equal(t, 90*800*time.Microsecond+10*40*time.Millisecond, c.Sum())
	require.InDelta(t, float64(500*time.Microsecond), float64(c.Quantile(0)), 1)
	require.InDelta(t, float64(750*time.Microsecond), float64(c.Quantile(0.45)), 1)
	require.InDelta(t, float64(time.Millisecond), float64(c.Quantile(0.9)), 1)
	require.InDelta(t, float64(37500*time.Microsecond), float64(c.Quantile(0.95)), 1e3)
	require.InDelta(t, float64(50*time.Millisecond), float64(c.Quantile(1)), 1)
	h.Observe(time.Hour)
	require.Equal(t, 10*time.Second, now().Quantile(1))
	require.Equal(t, uint64(202), c.Plus(now()).Plus(LatencyHistogram{}).Total()+1)
	require.Equal(t, 2*c.Sum()+time.Hour, c.Plus(now()).Sum())
}

// The goal: what was counted since an earlier snapshot, and that snapshot, add up to all.
func TestLatency_MinusIsWhatWasCountedSince(t *testing.T) {
	var h stats.Histogram
	now := func() LatencyHistogram { return LatencyHistogram{h.Snapshot()} }
	h.Observe(800 * time.Microsecond)
	before := now()
	h.Observe(40 * time.Millisecond)
	h.Observe(time.Hour)
	since := now().Minus(before)
	require.EqualValues(t, 2, since.Total())
	require.Equal(t, time.Hour+40*time.Millisecond, since.Sum())
	require.Equal(t, now(), since.Plus(before))
}

// The goal: the classes are those of the bounds, and a last one without an end.
func TestLatency_ClassesHaveAllThatWasCounted(t *testing.T) {
	var h stats.Histogram
	h.Observe(stats.Bounds[2])
	h.Observe(time.Hour)
	seen := map[time.Duration]uint64{}
	for upper, n := range (LatencyHistogram{h.Snapshot()}).Classes() {
		seen[upper] += n
	}
	require.Len(t, seen, len(stats.Bounds)+1)
	require.EqualValues(t, 1, seen[stats.Bounds[2]])
	require.EqualValues(t, 1, seen[math.MaxInt64])
}
