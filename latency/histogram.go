// Package latency counts how long things took in a few classes, at a cost that can be paid for each
// of very many.
package latency

import (
	"iter"
	"math"
	"sync/atomic"
	"time"
)

// bounds are the upper ends of the classes: from less than a trip to a node beside us takes, to
// more than anybody waits for one. Behind the last of them is one class more.
var bounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// Histogram counts times. The zero value is ready. All methods are safe for concurrent use, and
// none waits.
type Histogram struct {
	// Beside the classes that are used most, so that they share a line of the processors' caches.
	sum     atomic.Int64
	classes [len(bounds) + 1]atomic.Uint64
	_       [5]uint64 // up to whole lines, so that two Histograms in a row share none
}

// Observe counts one time. A negative one counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.classes[i].Add(1)
	h.sum.Add(int64(d))
}

// Counts returns what was counted so far. What is observed meanwhile may be in a part of it only.
func (h *Histogram) Counts() Counts {
	c := Counts{sum: time.Duration(h.sum.Load())}
	for i := range c.classes {
		c.classes[i] = h.classes[i].Load()
	}
	return c
}

// Counts is what a Histogram has counted. The zero value is that of none.
type Counts struct {
	classes [len(bounds) + 1]uint64
	sum     time.Duration
}

// Classes gives each class as its upper end, which belongs to it, and how many times are in it and
// in none below it. The upper end of the last is the longest Duration.
func (c Counts) Classes() iter.Seq2[time.Duration, uint64] {
	return func(yield func(time.Duration, uint64) bool) {
		for i, n := range c.classes {
			if !yield(upper(i), n) {
				return
			}
		}
	}
}

// upper is the upper end of a class.
func upper(i int) time.Duration {
	if i == len(bounds) {
		return math.MaxInt64
	}
	return bounds[i]
}

// Total is how many times were counted.
func (c Counts) Total() uint64 {
	n := uint64(0)
	for _, k := range c.classes {
		n += k
	}
	return n
}

// Sum is all times added up.
func (c Counts) Sum() time.Duration { return c.sum }

// Quantile is the time that a part q of all, from 0 to 1, did not exceed, as nearly as the classes
// tell: times are taken to be spread evenly in their class. It is the last bound, 10 s, where it is
// beyond that, and 0 where nothing was counted.
func (c Counts) Quantile(q float64) time.Duration {
	rank := q * float64(c.Total())
	lower := time.Duration(0)
	for i, n := range c.classes[:len(bounds)] {
		if n > 0 && rank <= float64(n) {
			return lower + time.Duration(max(rank, 0)/float64(n)*float64(bounds[i]-lower))
		}
		rank -= float64(n)
		lower = bounds[i]
	}
	if c.classes[len(bounds)] == 0 {
		return 0
	}
	return lower
}

// Minus is what was counted since an earlier look at the same Histogram.
func (c Counts) Minus(before Counts) Counts {
	for i, n := range before.classes {
		c.classes[i] -= n
	}
	c.sum -= before.sum
	return c
}

// Plus is what both have counted together.
func (c Counts) Plus(other Counts) Counts {
	for i, n := range other.classes {
		c.classes[i] += n
	}
	c.sum += other.sum
	return c
}
