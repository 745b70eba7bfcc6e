package series

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Goal: merged histograms are one distribution in milliseconds. A time outside the range counts as
// the nearest one inside.
func TestHistogram_Merge(t *testing.T) {
	a, b, sum := NewHistogram(), NewHistogram(), NewHistogram()
	for i := range 500 {
		a.Record(time.Duration(i+1) * time.Millisecond)
		b.Record(time.Duration(i+501) * time.Millisecond)
	}
	sum.Merge(a)
	sum.Merge(b)
	s := sum.Latency()
	require.InEpsilon(t, 500, s.P50, 0.002)
	require.InEpsilon(t, 900, s.P90, 0.002)
	require.InEpsilon(t, 990, s.P99, 0.002)
	require.InEpsilon(t, 999, s.P999, 0.002)
	require.InEpsilon(t, 1000, s.Max, 0.002)
	require.InEpsilon(t, 500.5, s.Mean, 0.002)

	sum.Record(-time.Second)
	sum.Record(time.Hour)
	require.EqualValues(t, 1002, sum.microseconds.TotalCount())
	require.InEpsilon(t, 60_000, sum.Latency().Max, 0.002)
	require.Equal(t, Latency{}, NewHistogram().Latency())
}
