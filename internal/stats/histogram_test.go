package stats

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: each duration is in the first bucket whose bound it does not exceed, and in no other.
func TestHistogram_PutsADurationInItsBucket(t *testing.T) {
	in := func(d time.Duration) int {
		var h Histogram
		h.Observe(d)
		s := h.Snapshot()
		require.Equal(t, uint64(1), s.Total())
		return slices.Index(s.Counts[:], 1)
	}
	for i, b := range Bounds {
		require.Equal(t, i, in(b), "the bound belongs to its bucket")
		require.Equal(t, i, in(b-1))
		require.Equal(t, i+1, in(b+1))
	}
	require.Zero(t, in(0))
	require.Zero(t, in(-time.Second))
	require.Equal(t, len(Bounds), in(time.Hour))
}

// The goal: bounds rise, or a duration could be in a bucket that is not the first one.
func TestHistogram_BoundsRise(t *testing.T) {
	for i := range Bounds[1:] {
		require.Less(t, Bounds[i], Bounds[i+1])
	}
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
	require.Equal(t, 28*time.Second, h.Snapshot().Sum)
}
