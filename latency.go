package lockpipe

import (
	"iter"
	"math"
	"time"

	"github.com/lockpipe/lockpipe/internal/stats"
)

// LatencyHistogram counts durations in classes. The zero value has counted nothing.
type LatencyHistogram struct{ counted stats.Snapshot }

// Classes yields the upper end of each class and the number of durations in it. The upper end
// belongs to the class. The upper end of the last class is the longest Duration.
func (h LatencyHistogram) Classes() iter.Seq2[time.Duration, uint64] {
	return func(yield func(time.Duration, uint64) bool) {
		for i, bound := range stats.Bounds {
			if !yield(bound, h.counted.Counts[i]) {
				return
			}
		}
		yield(math.MaxInt64, h.counted.Counts[len(stats.Bounds)])
	}
}

// Total returns the number of durations that were counted.
func (h LatencyHistogram) Total() uint64 { return h.counted.Total() }

// Sum returns the sum of all durations.
func (h LatencyHistogram) Sum() time.Duration { return h.counted.Sum }

// Quantile returns the duration that the fraction q of all, from 0 to 1, did not exceed. It assumes
// that durations are spread evenly within a class. It returns the last bound, 10 s, if the quantile
// is beyond that, and 0 if nothing was counted.
func (h LatencyHistogram) Quantile(q float64) time.Duration {
	rank, lower := q*float64(h.Total()), time.Duration(0)
	for i, bound := range stats.Bounds {
		n := float64(h.counted.Counts[i])
		if n > 0 && rank <= n {
			return lower + time.Duration(max(rank, 0)/n*float64(bound-lower))
		}
		rank -= n
		lower = bound
	}
	if h.counted.Counts[len(stats.Bounds)] == 0 {
		return 0
	}
	return lower
}

// Minus returns what was counted since an earlier look at the same node.
func (h LatencyHistogram) Minus(earlier LatencyHistogram) LatencyHistogram {
	for i, n := range earlier.counted.Counts {
		h.counted.Counts[i] -= n
	}
	h.counted.Sum -= earlier.counted.Sum
	return h
}

// Plus returns what both have counted together.
func (h LatencyHistogram) Plus(other LatencyHistogram) LatencyHistogram {
	return LatencyHistogram{h.counted.Add(other.counted)}
}
