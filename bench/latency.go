package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The histogram's range and precision. What lies outside counts as the nearest value inside.
const (
	minLatency  = time.Microsecond
	maxLatency  = 60 * time.Second
	latencyPrec = 3 // significant digits
)

// latency is a histogram of microseconds. It is owned by one worker until the run is over.
type latency struct{ histogram *hdrhistogram.Histogram }

func newLatency() latency {
	return latency{hdrhistogram.New(int64(minLatency/time.Microsecond),
		int64(maxLatency/time.Microsecond), latencyPrec)}
}

func (l latency) record(d time.Duration) {
	d = min(max(d.Round(time.Microsecond), minLatency), maxLatency)
	// An error means out of range, which d is not.
	_ = l.histogram.RecordValue(int64(d / time.Microsecond))
}

func (l latency) merge(from latency) { l.histogram.Merge(from.histogram) }

// Latency is a distribution in milliseconds, precise to three digits, from 1 microsecond to 60
// seconds. It is all zero where nothing was measured.
type Latency struct {
	// P50 is the median: half of the calls took no longer.
	P50 float64 `json:"p50"`
	// P90 is what 9 of 10 calls did not exceed.
	P90 float64 `json:"p90"`
	// P99 is what 99 of 100 calls did not exceed.
	P99 float64 `json:"p99"`
	// P999 is what 999 of 1000 calls did not exceed.
	P999 float64 `json:"p999"`
	// Max is the slowest call.
	Max float64 `json:"max"`
	// Mean is the arithmetic mean.
	Mean float64 `json:"mean"`
}

func (l latency) summary() Latency {
	at := func(percentile float64) float64 {
		return float64(l.histogram.ValueAtPercentile(
			percentile)) / 1000
	}
	return Latency{
		P50:  at(50),
		P90:  at(90),
		P99:  at(99),
		P999: at(99.9),
		Max:  float64(l.histogram.Max()) / 1000,
		Mean: l.histogram.Mean() / 1000,
	}
}
