package series

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Goal: the buckets have neither gaps nor overlaps up to the longest latency, and none is wider
// than 1/16 of the times in it.
func TestIntervalHistogram_BucketsAreGapless(t *testing.T) {
	for micros := range uint64(100_000) {
		i := bucketOf(micros)
		require.LessOrEqual(t, bucketStart(i), micros)
		require.Less(t, micros, bucketStart(i+1))
	}
	for i := range bucketCount {
		from, until := bucketStart(i), bucketStart(i+1)
		require.Equal(t, i, bucketOf(from))
		require.Equal(t, i, bucketOf(until-1))
		require.LessOrEqual(t, until-from, max(1, from/bucketsPerDoubling))
	}
	require.Less(t, bucketOf(uint64(maxLatency/time.Microsecond)), bucketCount)
}

// Goal: percentiles are right to 6 %, also if the times of several callers are merged. An interval
// leaves nothing to the next one.
func TestIntervalHistogram_PercentilesAreRightToSixPercent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	whole, part := &intervalHistogram{}, &intervalHistogram{}
	var all []float64
	for i := range 20_000 {
		d := time.Duration(math.Exp(random.Float64()*12) * float64(time.Microsecond))
		all = append(all, Milliseconds(d))
		part.record(d)
		if i%1000 == 999 {
			whole.merge(part)
			part.reset()
			require.Equal(t, intervalHistogram{}, *part)
		}
	}
	slices.Sort(all)
	require.EqualValues(t, len(all), whole.n)
	for p, got := range map[float64]float64{
		50: whole.summary().P50, 90: whole.summary().P90,
		99: whole.summary().P99,
	} {
		require.InEpsilon(t, all[int(p/100*float64(len(all)))-1], got, 0.065, p)
	}
	require.InDelta(t, all[len(all)-1], whole.summary().Max, 0.001)
	calls, end := uint64(0), 0.0
	for i, b := range whole.buckets() {
		if i > 0 {
			require.InDelta(t, end, b.FromMs, 1e-9, "each begins where the one before ends")
		}
		calls, end = calls+b.Calls, b.ToMs
	}
	require.EqualValues(t, len(all), calls)
}

// Goal: a time outside the range counts as the nearest one inside. Without times all is zero.
func TestIntervalHistogram_TimesOutsideCountAtTheEnds(t *testing.T) {
	var s *intervalHistogram
	require.Equal(t, Spread{}, s.summary())
	require.Empty(t, s.buckets())
	require.Equal(t, Spread{}, (&intervalHistogram{}).summary())
	s = &intervalHistogram{}
	s.record(-time.Second)
	require.Equal(t, Spread{Calls: 1, P50: 0.001, P90: 0.001, P99: 0.001, Max: 0.001}, s.summary())
	s.record(time.Hour)
	require.InDelta(t, Milliseconds(maxLatency), s.summary().Max, 0)
	require.InDelta(t, Milliseconds(maxLatency), s.summary().P99, 0)
}
