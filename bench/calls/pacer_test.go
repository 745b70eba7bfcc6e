package calls

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Goal: calls are due at even distances from the start, at any rate.
func TestPacer_CallsAreEvenlySpaced(t *testing.T) {
	for _, tc := range []struct {
		rate Pacer
		call uint64
		due  time.Duration
	}{
		{1000, 0, 0},
		{1000, 1, time.Millisecond},
		{1000, 2500, 2500 * time.Millisecond},
		{0.5, 3, 6 * time.Second},
		{3, 3, time.Second},
		{1e9, 7, 7},
	} {
		require.Equal(t, tc.due, tc.rate.Due(tc.call), "call %d at %g/s", tc.call, float64(tc.rate))
	}
}

// Goal: count agrees with counting the calls that due names, one by one.
func TestPacer_CountAgreesWithDue(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		p := Pacer(random.ExpFloat64() * 500)
		d := time.Duration(random.Int64N(int64(time.Second)))
		want := uint64(0)
		for p.Due(want) < d {
			want++
		}
		require.Equal(t, want, p.Count(d), "%g/s for %v", float64(p), d)
	}
	require.Zero(t, Pacer(100).Count(0))
	require.EqualValues(t, 100, Pacer(100).Count(time.Second))
	require.EqualValues(t, 101, Pacer(100).Count(time.Second+1))
}
