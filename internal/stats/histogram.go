// Package stats counts how calls and leases end, and how long things take. Each lock touches the
// counters a few times, so they are atomics only, and what they show is not of one moment.
package stats

import (
	"sync/atomic"
	"time"
)

// Bounds are the upper ends of the buckets, which belong to them. They rise from less than a round
// trip to a node nearby to more than any call waits for an answer. One more bucket follows.
var Bounds = [...]time.Duration{
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
	buckets [len(Bounds) + 1]atomic.Uint64
	_       [5]uint64 // up to whole lines, so that two Histograms in a row share none
}

// Observe counts one duration. A negative one counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(Bounds) && d > Bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(int64(d))
}

// Snapshot returns what was counted so far. A duration that is observed meanwhile may be in a part
// of it only.
func (h *Histogram) Snapshot() Snapshot {
	s := Snapshot{Sum: time.Duration(h.sum.Load())}
	for i := range s.Counts {
		s.Counts[i] = h.buckets[i].Load()
	}
	return s
}

// Snapshot is what a Histogram has counted. The zero value has counted nothing.
type Snapshot struct {
	// Counts has for each bucket how many durations are in it and in no bucket before it.
	Counts [len(Bounds) + 1]uint64
	Sum    time.Duration // of all durations
}

// Total returns how many durations were counted.
func (s Snapshot) Total() uint64 {
	total := uint64(0)
	for _, n := range s.Counts {
		total += n
	}
	return total
}

// Add returns what both have counted together.
func (s Snapshot) Add(other Snapshot) Snapshot {
	for i, n := range other.Counts {
		s.Counts[i] += n
	}
	s.Sum += other.Sum
	return s
}
