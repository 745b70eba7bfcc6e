package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Workers' histograms add up to one distribution in milliseconds, and values out of range count at
// its ends.
func TestLatenciesMerge(t *testing.T) {
	a, b, sum := newLatency(), newLatency(), newLatency()
	for i := range 500 {
		a.record(time.Duration(i+1) * time.Millisecond)
		b.record(time.Duration(i+501) * time.Millisecond)
	}
	sum.merge(a)
	sum.merge(b)
	s := sum.summary()
	require.InEpsilon(t, 500, s.P50, 0.002)
	require.InEpsilon(t, 900, s.P90, 0.002)
	require.InEpsilon(t, 990, s.P99, 0.002)
	require.InEpsilon(t, 999, s.P999, 0.002)
	require.InEpsilon(t, 1000, s.Max, 0.002)
	require.InEpsilon(t, 500.5, s.Mean, 0.002)

	sum.record(-time.Second)
	sum.record(time.Hour)
	require.EqualValues(t, 1002, sum.histogram.TotalCount())
	require.InEpsilon(t, 60_000, sum.summary().Max, 0.002)
	require.Equal(t, Latency{}, newLatency().summary())
}
