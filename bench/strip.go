package bench

import (
	"math"
	"math/bits"
	"time"
)

const (
	// stripFine is into how many buckets a strip divides each doubling of the time: so its
	// percentiles are right to 6 %.
	stripFine = 16
	// stripBuckets is enough for maxLatency.
	stripBuckets = 368
	// bucketsShown is how many buckets of a strip are one of a report, where that is about a shape.
	bucketsShown = stripFine / 4
)

// strip is a histogram of microseconds that is small, and cheap to merge and to empty: each caller
// has some of the interval that is under way, and hands them over several times a second. The
// histograms of the whole run are larger and more precise. The zero value is ready.
type strip struct {
	counts [stripBuckets]uint64
	n      uint64
	low    int // with high: the buckets from low to before high are those that may have counts
	high   int
	max    time.Duration
}

// stripIndex is the bucket of so many microseconds.
func stripIndex(micros uint64) int {
	shift := max(bits.Len64(micros)-bits.Len64(stripFine), 0)
	return shift*stripFine + int(micros>>shift)
}

// stripFrom is the least number of microseconds in a bucket.
func stripFrom(i int) uint64 {
	shift := max(i/stripFine-1, 0)
	return uint64(i-shift*stripFine) << shift
}

func (s *strip) record(d time.Duration) {
	d = min(max(d.Round(time.Microsecond), minLatency), maxLatency)
	i := stripIndex(uint64(d / time.Microsecond))
	s.spread(i, i+1)
	s.counts[i]++
	s.n++
	s.max = max(s.max, d)
}

// spread makes room for buckets that are about to have counts.
func (s *strip) spread(low, high int) {
	if s.n == 0 {
		s.low, s.high = low, high
		return
	}
	s.low, s.high = min(s.low, low), max(s.high, high)
}

func (s *strip) merge(from *strip) {
	if from.n == 0 {
		return
	}
	s.spread(from.low, from.high)
	for i := from.low; i < from.high; i++ {
		s.counts[i] += from.counts[i]
	}
	s.n += from.n
	s.max = max(s.max, from.max)
}

func (s *strip) reset() {
	clear(s.counts[s.low:s.high])
	s.n, s.low, s.high, s.max = 0, 0, 0, 0
}

// percentile is the time in milliseconds that so many of 100 did not exceed; 0 where there is none.
func (s *strip) percentile(p float64) float64 {
	rank, seen := uint64(math.Ceil(p/100*float64(s.n))), uint64(0)
	for i := s.low; i < s.high; i++ {
		if seen += s.counts[i]; seen >= rank {
			return min(float64(stripFrom(i+1)-1)/1000, milliseconds(s.max))
		}
	}
	return 0
}

// told is what a report says of it; a strip that is not there has no calls.
func (s *strip) told() Spread {
	if s == nil {
		return Spread{}
	}
	return Spread{
		Calls: s.n, P50: s.percentile(50), P90: s.percentile(90), P99: s.percentile(99),
		Max: milliseconds(s.max),
	}
}

// buckets is the shape, coarser.
func (s *strip) buckets() (shown []Bucket) {
	if s == nil {
		return nil
	}
	for i := s.low / bucketsShown * bucketsShown; i < s.high; i += bucketsShown {
		b := Bucket{
			FromMs: float64(stripFrom(i)) / 1000,
			ToMs:   float64(stripFrom(i+bucketsShown)) / 1000,
		}
		for _, n := range s.counts[i:min(i+bucketsShown, stripBuckets)] {
			b.Calls += n
		}
		shown = append(shown, b)
	}
	return shown
}
