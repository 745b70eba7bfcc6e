package series

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range and precision of a Histogram. A time outside counts as the nearest one inside.
const (
	minLatency      = time.Microsecond
	maxLatency      = 60 * time.Second
	latencyAccuracy = 3 // significant digits
)

// Histogram counts times of a whole run, precise to three digits. It is for one goroutine. Use
// NewHistogram.
type Histogram struct{ microseconds *hdrhistogram.Histogram }

// NewHistogram returns an empty Histogram.
func NewHistogram() Histogram {
	return Histogram{hdrhistogram.New(int64(minLatency/time.Microsecond),
		int64(maxLatency/time.Microsecond), latencyAccuracy)}
}

// Record counts one time.
func (h Histogram) Record(d time.Duration) {
	// An error means out of range, which it is not.
	_ = h.microseconds.RecordValue(int64(inRange(d) / time.Microsecond))
}

// Merge adds what another Histogram has counted.
func (h Histogram) Merge(from Histogram) { h.microseconds.Merge(from.microseconds) }

// Latency summarizes what was counted.
func (h Histogram) Latency() Latency {
	at := func(percentile float64) float64 {
		return float64(h.microseconds.ValueAtPercentile(percentile)) / 1000
	}
	return Latency{
		P50:  at(50),
		P90:  at(90),
		P99:  at(99),
		P999: at(99.9),
		Max:  float64(h.microseconds.Max()) / 1000,
		Mean: h.microseconds.Mean() / 1000,
	}
}

// inRange returns the nearest time that a histogram can count.
func inRange(d time.Duration) time.Duration {
	return min(max(d.Round(time.Microsecond), minLatency), maxLatency)
}

// Milliseconds returns a time as reports have it.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
