// Package series records a run over time: callers record their calls and how long these took, the
// counters of the Clients are polled, and a Builder makes a Series of both.
package series

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxIntervals bounds the memory of a Builder and the length of a Series.
const maxIntervals = 240

// steps are the lengths of intervals: each divides the next one, and maxIntervals of the last are
// longer than any run.
var steps = []time.Duration{
	100 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second, 10 * time.Second,
	30 * time.Second,
	time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 5 * time.Hour,
	10 * time.Hour,
}

// Builder gathers what happened in each interval of a run. If there are too many intervals,
// neighbours are merged. Each caller records the current interval in a Recorder of its own, so
// callers meet here only when an interval is over.
type Builder struct {
	start time.Time // set once, before anything is recorded

	step atomic.Int64 // nanoseconds; changed with mu held

	mu        sync.Mutex // guards all below
	level     int        // of step in steps
	intervals []*interval
}

// interval is one part of the run. A histogram is nil if nothing was measured.
type interval struct {
	tally                  Tally
	acquire, wait, release *intervalHistogram
	nodes                  []nodeCounts // in their order; nil: nothing was polled
}

// NewBuilder returns a Builder without any interval.
func NewBuilder() *Builder {
	b := &Builder{}
	b.step.Store(int64(steps[0]))
	return b
}

// Start sets the moment from which all times count. Call it once, before anything is recorded.
func (b *Builder) Start(at time.Time) { b.start = at }

// bounds returns the bounds of the interval that contains a moment, all since the start.
func (b *Builder) bounds(at time.Duration) (from, until time.Duration) {
	step := time.Duration(b.step.Load())
	from = at.Truncate(step)
	return from, from + step
}

// intervalAt returns the interval at a time since the start. mu is held.
func (b *Builder) intervalAt(at time.Duration) *interval {
	for b.level < len(steps)-1 && at >= maxIntervals*steps[b.level] {
		b.coarsen()
	}
	i := min(int(max(at, 0)/steps[b.level]), maxIntervals-1)
	for len(b.intervals) <= i {
		b.intervals = append(b.intervals, &interval{})
	}
	return b.intervals[i]
}

// coarsen changes to the next longer step. mu is held.
func (b *Builder) coarsen() {
	b.level++
	b.step.Store(int64(steps[b.level]))
	each := int(steps[b.level] / steps[b.level-1])
	kept := b.intervals[:0]
	for chunk := range slices.Chunk(b.intervals, each) {
		for _, other := range chunk[1:] {
			chunk[0].merge(other)
		}
		kept = append(kept, chunk[0])
	}
	clear(b.intervals[len(kept):])
	b.intervals = kept
}

func (i *interval) merge(other *interval) {
	i.tally.Add(other.tally)
	i.addNodes(other.nodes)
	mergeInto(&i.acquire, other.acquire)
	mergeInto(&i.wait, other.wait)
	mergeInto(&i.release, other.release)
}

// mergeInto merges a histogram into another one. Either may be nil.
func mergeInto(to **intervalHistogram, from *intervalHistogram) {
	if from == nil || from.n == 0 {
		return
	}
	if *to == nil {
		*to = &intervalHistogram{}
	}
	(*to).merge(from)
}

// end ends the last interval. A rate over a few milliseconds says nothing, so an interval shorter
// than half a step is merged into the one before. So are later intervals: the last poll may come
// after the end. mu is held.
func (b *Builder) end(elapsed time.Duration) {
	b.intervalAt(elapsed)
	step := steps[b.level]
	last := min(int(elapsed/step), maxIntervals-1)
	for _, late := range b.intervals[last+1:] {
		b.intervals[last].merge(late)
	}
	b.intervals = b.intervals[:last+1]
	if last > 0 && elapsed-time.Duration(last)*step < step/2 {
		b.intervals[last-1].merge(b.intervals[last])
		b.intervals = b.intervals[:last]
	}
}

// Series returns the Series of a run of this length. Call it once, when nothing is recorded any
// more.
func (b *Builder) Series(elapsed time.Duration) *Series {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end(elapsed)
	step := steps[b.level]
	s := &Series{StepS: step.Seconds()}
	var whole interval
	for n, i := range b.intervals {
		from, until := time.Duration(n)*step, time.Duration(n+1)*step
		if n == len(b.intervals)-1 {
			until = max(elapsed, from)
		}
		s.Intervals = append(s.Intervals, Interval{
			AtS: from.Seconds(), LengthS: (until - from).Seconds(), Tally: i.tally,
			AcquireMs: i.acquire.summary(), WaitMs: i.wait.summary(),
			ReleaseMs: i.release.summary(),
		})
		whole.merge(i)
	}
	s.AcquireHistogram, s.WaitHistogram, s.ReleaseHistogram = whole.acquire.buckets(),
		whole.wait.buckets(), whole.release.buckets()
	s.Nodes = b.nodes(whole.nodes)
	return s
}
