package bench

import (
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/series"
	"github.com/lockpipe/lockpipe/bench/shares"
	"github.com/lockpipe/lockpipe/bench/waits"
)

// HotReport is the part of a Report that Hot, Cart and Combine have. The JSON has its
// fields next to those of Report.
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
	// HotLocksPerS is how often a second a hot key was granted, as the mean of all hot keys. A turn
	// of a hot key takes 1/HotLocksPerS.
	HotLocksPerS float64 `json:"hot_locks_per_s"`
	// HotBusy is the share of DurationS in which a hot key was in use, from 0 to 1, as the mean of
	// all hot keys. A use begins when the call that is granted the key returns, and ends when the
	// caller calls Release or the lease runs out.
	HotBusy float64 `json:"hot_busy"`
	// LocksPerCallerCV is the coefficient of variation of the locks that each caller acquired:
	// their standard deviation over their mean. 0 is a fair lock, and also a run without any lock.
	// In an open loop it says little, because there a call falls to any caller that is free.
	LocksPerCallerCV float64 `json:"locks_per_caller_cv"`
	// MinShare is the locks of the caller that acquired the fewest over the mean: 1 is a fair lock,
	// and 0 means that a caller got none. MaxShare is those of the caller that acquired the most.
	MinShare float64 `json:"min_share"`
	MaxShare float64 `json:"max_share"`
	// LeastShare is MinShare again, under the name that readers of the scenario Cart expect.
	LeastShare float64 `json:"least_share"`
	// MinClientShare is MinShare of the Clients: the mean of the callers of the Client that
	// acquired the fewest, over the mean of all Clients. With one Client it is 1.
	MinClientShare float64 `json:"min_client_share"`
	// Cold is about the cold callers of the scenario Cart, and nil if there are none. All fields
	// above are about the other callers, but Handovers, SplitVotes and AttemptsPerLock about all.
	Cold *ColdReport `json:"cold,omitempty"`
}

// ColdReport is what a Report has about the cold callers of the scenario Cart. The fields are those
// that Report and HotReport have by the same names.
type ColdReport struct {
	LocksPerS float64        `json:"locks_per_s"`
	WaitMs    series.Latency `json:"wait_ms"`
	MaxWaitMs float64        `json:"max_wait_ms"`
	MinShare  float64        `json:"min_share"`
	MaxShare  float64        `json:"max_share"`
}

// count enters what the Clients counted between two readings of their Stats.
func (r *HotReport) count(before, after lockpipe.Stats, acquired uint64) {
	r.Handovers = after.Handovers - before.Handovers
	r.SplitVotes = after.SplitVotes - before.SplitVotes
	r.AttemptsPerLock = per(float64(after.Attempts-before.Attempts), float64(acquired))
}

// sumWaits adds up the waits of callers, and returns the locks of each. The callers must have
// ended.
func sumWaits(workers []*worker) (sum *waits.Waits, locks []float64) {
	sum = waits.New()
	for _, w := range workers {
		sum.Merge(w.waits)
		locks = append(locks, float64(w.acquired.Load()))
	}
	return sum, locks
}

// newHotReport reports what the workers of the scenario Hot, Cart or Combine recorded in a time.
func newHotReport(cfg Config, workers []*worker, elapsed time.Duration) *HotReport {
	hot, locks := sumWaits(workers[:cfg.Callers])
	keys := float64(cfg.hotKeys())
	r := &HotReport{
		WaitMs: hot.Granted.Latency(), MaxWaitMs: series.Milliseconds(hot.Longest),
		HotLocksPerS: per(shares.Sum(locks)/float64(cfg.perCall())/keys, elapsed.Seconds()),
		HotBusy:      per(hot.Used.Seconds()/keys, elapsed.Seconds()),
	}
	r.LocksPerCallerCV, r.MinShare, r.MaxShare = shares.Spread(locks)
	r.LeastShare = r.MinShare
	_, r.MinClientShare, _ = shares.Spread(shares.Means(locks, cfg.Clients))
	if cfg.Cold == 0 {
		return r
	}
	cold, locks := sumWaits(workers[cfg.Callers:])
	r.Cold = &ColdReport{
		LocksPerS: per(shares.Sum(locks), elapsed.Seconds()),
		WaitMs:    cold.Granted.Latency(), MaxWaitMs: series.Milliseconds(cold.Longest),
	}
	_, r.Cold.MinShare, r.Cold.MaxShare = shares.Spread(locks)
	return r
}
