package series

import "time"

// Recorder records what one caller does in the current interval. It is for one goroutine, the owner
// of what total reads.
type Recorder struct {
	// set once
	builder *Builder
	total   func() Tally // all that the caller has counted so far

	from, until            time.Duration // of the current interval, since the start
	reported               Tally         // the part of total that the Builder has
	acquire, wait, release intervalHistogram
}

// NewRecorder returns the Recorder of one caller. total returns all that the caller has counted so
// far, but no extensions.
func (b *Builder) NewRecorder(total func() Tally) *Recorder {
	return &Recorder{builder: b, total: total}
}

// Roll begins the interval that contains a moment, unless that has begun. Call it before the counts
// of a call change: until then they belong to the previous interval.
func (r *Recorder) Roll(now time.Time) {
	at := now.Sub(r.builder.start)
	if at < r.until {
		return
	}
	r.Commit()
	r.from, r.until = r.builder.bounds(at)
}

// Acquire records how long a call took that was granted.
func (r *Recorder) Acquire(d time.Duration) { r.acquire.record(d) }

// Wait records how long a call waited until it was granted.
func (r *Recorder) Wait(d time.Duration) { r.wait.record(d) }

// Release records how long a release took.
func (r *Recorder) Release(d time.Duration) { r.release.record(d) }

// Commit gives the Builder all that was recorded. Roll does that after each interval; call Commit
// after the last call.
func (r *Recorder) Commit() {
	total := r.total()
	delta := total.minus(r.reported)
	if delta == (Tally{}) && r.acquire.n == 0 && r.wait.n == 0 && r.release.n == 0 {
		return
	}
	r.reported = total
	r.builder.add(r.from, &interval{
		tally: delta, acquire: &r.acquire, wait: &r.wait, release: &r.release,
	})
	r.acquire.reset()
	r.wait.reset()
	r.release.reset()
}

// add adds what a caller recorded in the interval that began then.
func (b *Builder) add(from time.Duration, more *interval) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.intervalAt(from).merge(more)
}
