// Package waits records how long a caller waited, and how long it used what it waited for.
package waits

import (
	"time"

	"github.com/lockpipe/lockpipe/bench/series"
)

// Waits are those of one caller, or the sum of several. They must not be used concurrently.
type Waits struct {
	Granted series.Histogram // of the calls that were granted
	Longest time.Duration    // of all calls, including those that the end of the run cut off
	Used    time.Duration    // the time in which the caller used what it was granted
}

// New returns none yet.
func New() *Waits { return &Waits{Granted: series.NewHistogram()} }

// Record records the wait of a call.
func (w *Waits) Record(d time.Duration, granted bool) {
	w.Longest = max(w.Longest, d)
	if granted {
		w.Granted.Record(d)
	}
}

// Use records that the caller used a lease between two times, unless the lease ran out before.
func (w *Waits) Use(from, to, until time.Time) {
	if until.Before(to) {
		to = until
	}
	w.Used += max(0, to.Sub(from))
}

// Merge adds the waits of another caller.
func (w *Waits) Merge(from *Waits) {
	w.Granted.Merge(from.Granted)
	w.Longest = max(w.Longest, from.Longest)
	w.Used += from.Used
}
