package series

import (
	"math"
	"math/bits"
	"time"
)

const (
	// bucketsPerDoubling is how many buckets divide each doubling of the time. So percentiles are
	// right to 6 %.
	bucketsPerDoubling = 16
	// bucketCount is enough for maxLatency.
	bucketCount = 368
	// bucketsShown is how many buckets become one in a report, which shows a shape.
	bucketsShown = bucketsPerDoubling / 4
)

// intervalHistogram is a histogram of microseconds that is small, and cheap to merge and to empty:
// each caller has some of the current interval, and commits them several times a second. A
// Histogram is larger and more precise. The zero value is empty.
type intervalHistogram struct {
	counts [bucketCount]uint64
	n      uint64
	low    int // with high: the buckets from low to before high are those that may have counts
	high   int
	max    time.Duration
}

// bucketOf returns the bucket of so many microseconds.
func bucketOf(micros uint64) int {
	shift := max(bits.Len64(micros)-bits.Len64(bucketsPerDoubling), 0)
	return shift*bucketsPerDoubling + int(micros>>shift)
}

// bucketStart returns the least number of microseconds in a bucket.
func bucketStart(i int) uint64 {
	shift := max(i/bucketsPerDoubling-1, 0)
	return uint64(i-shift*bucketsPerDoubling) << shift
}

func (h *intervalHistogram) record(d time.Duration) {
	d = inRange(d)
	i := bucketOf(uint64(d / time.Microsecond))
	h.extend(i, i+1)
	h.counts[i]++
	h.n++
	h.max = max(h.max, d)
}

// extend extends the range of buckets that may have counts.
func (h *intervalHistogram) extend(low, high int) {
	if h.n == 0 {
		h.low, h.high = low, high
		return
	}
	h.low, h.high = min(h.low, low), max(h.high, high)
}

func (h *intervalHistogram) merge(from *intervalHistogram) {
	if from.n == 0 {
		return
	}
	h.extend(from.low, from.high)
	for i := from.low; i < from.high; i++ {
		h.counts[i] += from.counts[i]
	}
	h.n += from.n
	h.max = max(h.max, from.max)
}

func (h *intervalHistogram) reset() {
	clear(h.counts[h.low:h.high])
	h.n, h.low, h.high, h.max = 0, 0, 0, 0
}

// percentile returns the time in milliseconds that so many of 100 did not exceed, or 0 if there is
// none.
func (h *intervalHistogram) percentile(p float64) float64 {
	rank, seen := uint64(math.Ceil(p/100*float64(h.n))), uint64(0)
	for i := h.low; i < h.high; i++ {
		if seen += h.counts[i]; seen >= rank {
			return min(float64(bucketStart(i+1)-1)/1000, Milliseconds(h.max))
		}
	}
	return 0
}

// summary returns the Spread of what was recorded, which is nothing if h is nil.
func (h *intervalHistogram) summary() Spread {
	if h == nil {
		return Spread{}
	}
	return Spread{
		Calls: h.n, P50: h.percentile(50), P90: h.percentile(90), P99: h.percentile(99),
		Max: Milliseconds(h.max),
	}
}

// buckets returns the shape, coarser. It has no bucket if h is nil.
func (h *intervalHistogram) buckets() (shown []Bucket) {
	if h == nil {
		return nil
	}
	for i := h.low / bucketsShown * bucketsShown; i < h.high; i += bucketsShown {
		b := Bucket{
			FromMs: float64(bucketStart(i)) / 1000,
			ToMs:   float64(bucketStart(i+bucketsShown)) / 1000,
		}
		for _, n := range h.counts[i:min(i+bucketsShown, bucketCount)] {
			b.Calls += n
		}
		shown = append(shown, b)
	}
	return shown
}
