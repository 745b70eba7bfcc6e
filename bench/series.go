package bench

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxIntervals bounds the memory for a series and the length of its report.
const maxIntervals = 240

// steps are the lengths of intervals: each divides the next one, and maxIntervals of the last are
// longer than any run.
var steps = []time.Duration{
	100 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second, 10 * time.Second,
	30 * time.Second,
	time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 5 * time.Hour,
	10 * time.Hour,
}

// series gathers what happened in each interval of a run. When there are too many intervals, those
// next to each other become one. Callers note the interval under way each in a tab of their own, so
// they meet here only when it is over.
type series struct {
	start time.Time // set once before anything is noted

	step atomic.Int64 // nanoseconds; changed with mu held

	mu        sync.Mutex // guards all below
	level     int        // of step in steps
	intervals []*span
}

// span is an interval that is not told yet. Where nothing was measured there is no strip.
type span struct {
	tally                  Tally
	acquire, wait, release *strip
	nodes                  []nodeLook // in the order of the configuration; nil where nobody looked
}

func newSeries() *series {
	s := &series{}
	s.step.Store(int64(steps[0]))
	return s
}

// interval returns from when to when the interval lasts that has a moment in it, both since the
// start.
func (s *series) interval(at time.Duration) (from, until time.Duration) {
	step := time.Duration(s.step.Load())
	from = at.Truncate(step)
	return from, from + step
}

// at is the interval at a time since the start. mu is held.
func (s *series) at(at time.Duration) *span {
	for s.level < len(steps)-1 && at >= maxIntervals*steps[s.level] {
		s.coarsen()
	}
	i := min(int(max(at, 0)/steps[s.level]), maxIntervals-1)
	for len(s.intervals) <= i {
		s.intervals = append(s.intervals, &span{})
	}
	return s.intervals[i]
}

// coarsen goes on to the next longer step. mu is held.
func (s *series) coarsen() {
	s.level++
	s.step.Store(int64(steps[s.level]))
	each := int(steps[s.level] / steps[s.level-1])
	kept := s.intervals[:0]
	for chunk := range slices.Chunk(s.intervals, each) {
		for _, other := range chunk[1:] {
			chunk[0].merge(other)
		}
		kept = append(kept, chunk[0])
	}
	clear(s.intervals[len(kept):])
	s.intervals = kept
}

func (p *span) merge(other *span) {
	p.tally.add(other.tally)
	p.addNodes(other.nodes)
	for _, pair := range []struct{ to, from **strip }{
		{&p.acquire, &other.acquire},
		{&p.wait, &other.wait},
		{&p.release, &other.release},
	} {
		if *pair.from != nil {
			gather(pair.to, *pair.from)
		}
	}
}

// gather merges a strip into one that may not be there yet.
func gather(to **strip, from *strip) {
	if from.n == 0 {
		return
	}
	if *to == nil {
		*to = &strip{}
	}
	(*to).merge(from)
}

// end is the end of the last interval. A rate over a few milliseconds says nothing, so what is
// shorter than half a step goes to the interval before.
func (s *series) end(elapsed time.Duration) {
	s.at(elapsed)
	last, step := len(s.intervals)-1, steps[s.level]
	if last > 0 && elapsed-time.Duration(last)*step < step/2 {
		s.intervals[last-1].merge(s.intervals[last])
		s.intervals = s.intervals[:last]
	}
}

// report tells everything, of a run that lasted so long. Nothing is noted any more.
func (s *series) report(elapsed time.Duration) *Series {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(elapsed)
	step := steps[s.level]
	r := &Series{StepS: step.Seconds()}
	var whole span
	for i, p := range s.intervals {
		from, until := time.Duration(i)*step, time.Duration(i+1)*step
		if i == len(s.intervals)-1 {
			until = max(elapsed, from)
		}
		interval := Interval{AtS: from.Seconds(), LengthS: (until - from).Seconds(), Tally: p.tally}
		interval.AcquireMs, interval.WaitMs, interval.ReleaseMs = p.acquire.told(), p.wait.told(),
			p.release.told()
		r.Intervals = append(r.Intervals, interval)
		whole.merge(p)
	}
	r.AcquireHistogram, r.WaitHistogram, r.ReleaseHistogram = whole.acquire.buckets(),
		whole.wait.buckets(), whole.release.buckets()
	r.Nodes = s.nodes()
	return r
}
