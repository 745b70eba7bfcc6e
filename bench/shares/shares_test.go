package shares

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Goal: fairness is the deviation, the least and the most of the locks over their mean.
func TestShares_AreOverTheMean(t *testing.T) {
	for _, tc := range []struct {
		locks                  []float64
		cv, minShare, maxShare float64
	}{
		{nil, 0, 0, 0},
		{[]float64{0, 0}, 0, 0, 0},
		{[]float64{7}, 0, 1, 1},
		{[]float64{5, 5, 5}, 0, 1, 1},
		{[]float64{1, 3}, 0.5, 0.5, 1.5},
		{[]float64{0, 0, 0, 4}, 1.7320508, 0, 4},
	} {
		cv, minShare, maxShare := Spread(tc.locks)
		require.InDelta(t, tc.cv, cv, 1e-6, tc.locks)
		require.InDelta(t, tc.minShare, minShare, 1e-6, tc.locks)
		require.InDelta(t, tc.maxShare, maxShare, 1e-6, tc.locks)
	}
}

// Goal: the mean of a Client's callers counts, however many callers each Client has.
func TestShares_MeansOfClients(t *testing.T) {
	require.Equal(t, []float64{4}, Means([]float64{3, 5}, 1))
	require.Equal(t, []float64{4, 1}, Means([]float64{3, 1, 5}, 2))
}
