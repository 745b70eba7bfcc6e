package bench

import "github.com/lockpipe/lockpipe"

// HotReport is what the scenario Hot found beside what every scenario reports. Its fields stand in
// the JSON beside those of Report.
type HotReport struct {
	// WaitMs is how long the calls took that were granted, from the call itself: in an open loop
	// too, where AcquireMs counts from when they were due.
	WaitMs Latency `json:"wait_ms"`
	// MaxWaitMs is the longest wait in milliseconds, exact and without a limit, of all calls: those
	// too that failed, or that the end of the run cut off. A caller that is never served must not
	// vanish. So it may be above WaitMs.Max.
	MaxWaitMs float64 `json:"max_wait_ms"`
	// Handovers is how many leases were passed to a waiter of the same Client without a trip to the
	// nodes.
	Handovers uint64 `json:"handovers"`
	// SplitVotes is in how many attempts nobody got a majority, although the votes for one were
	// there.
	SplitVotes uint64 `json:"split_votes"`
	// AttemptsPerLock is how many attempts the Clients sent to the nodes per lock acquired, those
	// of calls included that the end of the run cut off. Leases that were handed over need none.
	AttemptsPerLock float64 `json:"attempts_per_lock"`
	// LocksPerCallerCV is the coefficient of variation of the locks that each caller acquired:
	// their standard deviation over their mean. 0 is a fair lock, and also a run without any lock.
	// In an open loop it says little, because there a call falls to whichever caller is free.
	LocksPerCallerCV float64 `json:"locks_per_caller_cv"`
	// MinShare is the locks of the caller that acquired the fewest over the mean: 1 is a fair lock;
	// 0 means that somebody got none.
	MinShare float64 `json:"min_share"`
}

// count enters what the Clients counted between two looks at their Stats.
func (r *HotReport) count(before, after lockpipe.Stats, acquired uint64) {
	r.Handovers = after.Handovers - before.Handovers
	r.SplitVotes = after.SplitVotes - before.SplitVotes
	r.AttemptsPerLock = per(float64(after.Attempts-before.Attempts), float64(acquired))
}
