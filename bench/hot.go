package bench

import (
	"math"
	"slices"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/series"
)

// HotReport is the part of a Report that only the scenario Hot has. The JSON has its fields next to
// those of Report.
type HotReport struct {
	// WaitMs is how long the calls took that were granted, from the call itself: in an open loop
	// too, where AcquireMs counts from when they were due.
	WaitMs series.Latency `json:"wait_ms"`
	// MaxWaitMs is the longest wait of all calls in milliseconds, exact and without a limit. Calls
	// that failed or that the end of the run cut off count too, because a caller that is never
	// served must not vanish. So it may be above WaitMs.Max.
	MaxWaitMs float64 `json:"max_wait_ms"`
	// Handovers is how many leases were passed to a waiting call of the same Client without a flush
	// to the nodes.
	Handovers uint64 `json:"handovers"`
	// SplitVotes is in how many attempts nobody got a majority, although there were enough votes
	// for one.
	SplitVotes uint64 `json:"split_votes"`
	// AttemptsPerLock is how many attempts the Clients sent to the nodes per lock acquired,
	// including calls that the end of the run cut off. Leases that were handed over need none.
	AttemptsPerLock float64 `json:"attempts_per_lock"`
	// LocksPerCallerCV is the coefficient of variation of the locks that each caller acquired:
	// their standard deviation over their mean. 0 is a fair lock, and also a run without any lock.
	// In an open loop it says little, because there a call falls to any caller that is free.
	LocksPerCallerCV float64 `json:"locks_per_caller_cv"`
	// MinShare is the locks of the caller that acquired the fewest over the mean: 1 is a fair lock,
	// and 0 means that a caller got none.
	MinShare float64 `json:"min_share"`
}

// count enters what the Clients counted between two readings of their Stats.
func (r *HotReport) count(before, after lockpipe.Stats, acquired uint64) {
	r.Handovers = after.Handovers - before.Handovers
	r.SplitVotes = after.SplitVotes - before.SplitVotes
	r.AttemptsPerLock = per(float64(after.Attempts-before.Attempts), float64(acquired))
}

// waits is what one caller of the scenario Hot records of its calls. It is owned by its worker
// until the run is over.
type waits struct {
	granted series.Histogram // of the calls that were granted
	longest time.Duration    // of all calls, including those that the end of the run cut off
}

func (w *waits) record(d time.Duration, granted bool) {
	w.longest = max(w.longest, d)
	if granted {
		w.granted.Record(d)
	}
}

// newHotReport adds up what the workers of the scenario Hot recorded. They must have ended.
func newHotReport(workers []*worker) *HotReport {
	granted, longest := series.NewHistogram(), time.Duration(0)
	locks := make([]uint64, len(workers))
	for i, w := range workers {
		granted.Merge(w.waits.granted)
		longest = max(longest, w.waits.longest)
		locks[i] = w.acquired.Load()
	}
	r := &HotReport{WaitMs: granted.Latency(), MaxWaitMs: series.Milliseconds(longest)}
	r.LocksPerCallerCV, r.MinShare = fairness(locks)
	return r
}

// fairness returns the standard deviation and the least of the locks of all callers, each over
// their mean. Both are 0 if there are no locks.
func fairness(locks []uint64) (cv, minShare float64) {
	var sum, squares float64
	for _, n := range locks {
		sum += float64(n)
	}
	if sum == 0 {
		return 0, 0
	}
	mean := sum / float64(len(locks))
	for _, n := range locks {
		squares += (float64(n) - mean) * (float64(n) - mean)
	}
	return math.Sqrt(squares/float64(len(locks))) / mean, float64(slices.Min(locks)) / mean
}
