// Package stats counts how calls and leases end, and how long things take. Each lock touches the
// counters a few times, so they are atomics only, and what they show is not of one moment.
package stats

import (
	"iter"
	"math"
	"sync/atomic"
	"time"
)

// bounds are the upper ends of the buckets: from less than a round trip to a node nearby, to more
// than any call waits for an answer. One more bucket follows the last bound.
var bounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// Histogram counts durations in a few fixed buckets. The bucket bounds are the same for all, so
// snapshots can be added and subtracted. The zero value is ready. All methods are safe for
// concurrent use, and none of them blocks.
type Histogram struct {
	// Next to the buckets that are used most, so that they share a line of the processors' caches.
	sum     atomic.Int64
	buckets [len(bounds) + 1]atomic.Uint64
	_       [5]uint64 // up to whole lines, so that two Histograms in a row share none
}

// Observe counts one duration. A negative one counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(int64(d))
}

// Snapshot returns what was counted so far. A duration that is observed meanwhile may be in a part
// of it only.
func (h *Histogram) Snapshot() Snapshot {
	s := Snapshot{sum: time.Duration(h.sum.Load())}
	for i := range s.buckets {
		s.buckets[i] = h.buckets[i].Load()
	}
	return s
}

// Snapshot is what a Histogram has counted. The zero value has counted nothing.
type Snapshot struct {
	buckets [len(bounds) + 1]uint64
	sum     time.Duration
}

// Buckets yields the inclusive upper end of each bucket, in rising order, and how many durations
// are in it and in no bucket before it. The upper end of the last bucket is the longest Duration.
func (s Snapshot) Buckets() iter.Seq2[time.Duration, uint64] {
	return func(yield func(time.Duration, uint64) bool) {
		for i, n := range s.buckets {
			if !yield(upper(i), n) {
				return
			}
		}
	}
}

// upper returns the upper end of a bucket.
func upper(i int) time.Duration {
	if i == len(bounds) {
		return math.MaxInt64
	}
	return bounds[i]
}

// Total returns how many durations were counted.
func (s Snapshot) Total() uint64 {
	total := uint64(0)
	for _, n := range s.buckets {
		total += n
	}
	return total
}

// Sum returns the sum of all durations.
func (s Snapshot) Sum() time.Duration { return s.sum }

// Quantile returns the duration that a part q of all, from 0 to 1, did not exceed, as nearly as the
// buckets show: it takes durations to be spread evenly in their bucket. It returns the last bound,
// 10 s, if the quantile is beyond that, and 0 if nothing was counted.
func (s Snapshot) Quantile(q float64) time.Duration {
	rank := q * float64(s.Total())
	lower := time.Duration(0)
	for i, n := range s.buckets[:len(bounds)] {
		if n > 0 && rank <= float64(n) {
			return lower + time.Duration(max(rank, 0)/float64(n)*float64(bounds[i]-lower))
		}
		rank -= float64(n)
		lower = bounds[i]
	}
	if s.buckets[len(bounds)] == 0 {
		return 0
	}
	return lower
}

// Sub returns what was counted since an earlier snapshot of the same Histogram.
func (s Snapshot) Sub(earlier Snapshot) Snapshot {
	for i, n := range earlier.buckets {
		s.buckets[i] -= n
	}
	s.sum -= earlier.sum
	return s
}

// Add returns what both have counted together.
func (s Snapshot) Add(other Snapshot) Snapshot {
	for i, n := range other.buckets {
		s.buckets[i] += n
	}
	s.sum += other.sum
	return s
}
