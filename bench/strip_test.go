package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The buckets follow each other without a gap or an overlap, up to the longest latency, and none is
// wider than 1/16 of what is in it.
func TestStripBucketsFollowEachOther(t *testing.T) {
	for micros := range uint64(100_000) {
		i := stripIndex(micros)
		require.LessOrEqual(t, stripFrom(i), micros)
		require.Less(t, micros, stripFrom(i+1))
	}
	for i := range stripBuckets {
		from, until := stripFrom(i), stripFrom(i+1)
		require.Equal(t, i, stripIndex(from))
		require.Equal(t, i, stripIndex(until-1))
		require.LessOrEqual(t, until-from, max(1, from/stripFine))
	}
	require.Less(t, stripIndex(uint64(maxLatency/time.Microsecond)), stripBuckets)
}

// Percentiles are right to 6 %, whether the times were recorded by one caller or by several that
// were merged, and nothing of an interval is left in the next one.
func TestStripPercentiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	whole, part := &strip{}, &strip{}
	var all []float64
	for i := range 20_000 {
		d := time.Duration(math.Exp(random.Float64()*12) * float64(time.Microsecond))
		all = append(all, milliseconds(d))
		part.record(d)
		if i%1000 == 999 {
			whole.merge(part)
			part.reset()
			require.Equal(t, strip{}, *part)
		}
	}
	slices.Sort(all)
	require.EqualValues(t, len(all), whole.n)
	for p, got := range map[float64]float64{
		50: whole.told().P50, 90: whole.told().P90,
		99: whole.told().P99,
	} {
		require.InEpsilon(t, all[int(p/100*float64(len(all)))-1], got, 0.065, p)
	}
	require.InDelta(t, all[len(all)-1], whole.told().Max, 0.001)
	calls, end := uint64(0), 0.0
	for i, b := range whole.buckets() {
		if i > 0 {
			require.InDelta(t, end, b.FromMs, 1e-9, "each begins where the one before ends")
		}
		calls, end = calls+b.Calls, b.ToMs
	}
	require.EqualValues(t, len(all), calls)
}

// What lies outside counts as the nearest value inside, and of nothing there are zeros.
func TestStripAtItsEnds(t *testing.T) {
	var s *strip
	require.Equal(t, Spread{}, s.told())
	require.Empty(t, s.buckets())
	require.Equal(t, Spread{}, (&strip{}).told())
	s = &strip{}
	s.record(-time.Second)
	require.Equal(t, Spread{Calls: 1, P50: 0.001, P90: 0.001, P99: 0.001, Max: 0.001}, s.told())
	s.record(time.Hour)
	require.InDelta(t, milliseconds(maxLatency), s.told().Max, 0)
	require.InDelta(t, milliseconds(maxLatency), s.told().P99, 0)
}
