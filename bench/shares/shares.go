// Package shares says how evenly callers were served.
package shares

import (
	"math"
	"slices"
)

// Spread returns the standard deviation, the least and the most of the locks of all callers, each
// over their mean. They are 0 if there are no locks.
func Spread(locks []float64) (cv, minShare, maxShare float64) {
	sum, squares := Sum(locks), 0.0
	if sum == 0 {
		return 0, 0, 0
	}
	mean := sum / float64(len(locks))
	for _, n := range locks {
		squares += (n - mean) * (n - mean)
	}
	return math.Sqrt(squares/float64(len(locks))) / mean, slices.Min(locks) / mean,
		slices.Max(locks) / mean
}

// Means returns the mean of the locks of each Client's callers. Caller i is a caller of Client i
// modulo their number.
func Means(locks []float64, clients int) (means []float64) {
	for first := range clients {
		sum, callers := 0.0, 0
		for i := first; i < len(locks); i += clients {
			sum += locks[i]
			callers++
		}
		means = append(means, sum/max(float64(callers), 1))
	}
	return means
}

// Sum returns the sum.
func Sum(locks []float64) (sum float64) {
	for _, n := range locks {
		sum += n
	}
	return sum
}
