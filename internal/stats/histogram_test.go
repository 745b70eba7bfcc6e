package stats

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: each duration is in the first bucket whose bound it does not exceed, and in no other.
func TestHistogram_PutsADurationInItsBucket(t *testing.T) {
	in := func(d time.Duration) time.Duration {
		var h Histogram
		h.Observe(d)
		require.Equal(t, uint64(1), h.Snapshot().Total())
		for upper, n := range h.Snapshot().Buckets() {
			if n > 0 {
				return upper
			}
		}
		panic("unreachable")
	}
	for i, b := range bounds {
		require.Equal(t, b, in(b), "the bound belongs to its bucket")
		require.Equal(t, b, in(b-1))
		require.Equal(t, upper(i+1), in(b+1))
	}
	require.Equal(t, bounds[0], in(0))
	require.Equal(t, bounds[0], in(-time.Second))
	require.Equal(t, time.Duration(math.MaxInt64), in(time.Hour))
}

// The goal: bounds rise, or a duration could be in a bucket that is not the first one.
func TestHistogram_BoundsRise(t *testing.T) {
	for i := range bounds[1:] {
		require.Less(t, bounds[i], bounds[i+1])
	}
}

// The goal: quantiles are near the durations, and there is one also at the ends and for nothing.
func TestSnapshot_Quantile(t *testing.T) {
	var h Histogram
	require.Zero(t, h.Snapshot().Quantile(0.5))
	for range 90 {
		h.Observe(800 * time.Microsecond) // in (500us, 1ms]
	}
	for range 10 {
		h.Observe(40 * time.Millisecond) // in (25ms, 50ms]
	}
	c := h.Snapshot()
	require.Equal(t, 90*800*time.Microsecond+10*40*time.Millisecond, c.Sum())
	require.InDelta(t, float64(500*time.Microsecond), float64(c.Quantile(0)), 1)
	require.InDelta(t, float64(750*time.Microsecond), float64(c.Quantile(0.45)), 1)
	require.InDelta(t, float64(time.Millisecond), float64(c.Quantile(0.9)), 1)
	require.InDelta(t, float64(37500*time.Microsecond), float64(c.Quantile(0.95)), 1e3)
	require.InDelta(t, float64(50*time.Millisecond), float64(c.Quantile(1)), 1)
	h.Observe(time.Hour)
	require.Equal(t, 10*time.Second, h.Snapshot().Quantile(1))
	require.Equal(t, uint64(202), c.Add(h.Snapshot()).Add(Snapshot{}).Total()+1)
	require.Equal(t, 2*c.Sum()+time.Hour, c.Add(h.Snapshot()).Sum())
}

// The goal: nothing is lost when many goroutines count at once.
func TestHistogram_CountsForManyAtOnce(t *testing.T) {
	var h Histogram
	var working sync.WaitGroup
	for i := range 8 {
		working.Go(func() {
			for range 1000 {
				h.Observe(time.Duration(i) * time.Millisecond)
			}
		})
	}
	working.Wait()
	require.Equal(t, uint64(8000), h.Snapshot().Total())
	require.Equal(t, 28*time.Second, h.Snapshot().Sum())
}

// The goal: what was counted since an earlier snapshot, and that snapshot, add up to all.
func TestSnapshot_SubIsWhatWasCountedSince(t *testing.T) {
	var h Histogram
	h.Observe(800 * time.Microsecond)
	before := h.Snapshot()
	h.Observe(40 * time.Millisecond)
	h.Observe(time.Hour)
	since := h.Snapshot().Sub(before)
	require.EqualValues(t, 2, since.Total())
	require.Equal(t, time.Hour+40*time.Millisecond, since.Sum())
	require.Equal(t, h.Snapshot(), since.Add(before))
}
