package bench

import (
	"math"
	"slices"
	"time"
)

// waiting is what one caller of the scenario Hot notes of its calls. It is owned by its worker
// until the run is over.
type waiting struct {
	granted latency       // of the calls that were granted
	longest time.Duration // of all calls, those too that the end of the run cut off
}

func (w *waiting) note(d time.Duration, granted bool) {
	w.longest = max(w.longest, d)
	if granted {
		w.granted.record(d)
	}
}

// newHotReport is what the workers of the scenario Hot noted. They must have ended.
func newHotReport(workers []*worker) *HotReport {
	granted, longest := newLatency(), time.Duration(0)
	locks := make([]uint64, len(workers))
	for i, w := range workers {
		granted.merge(w.waiting.granted)
		longest = max(longest, w.waiting.longest)
		locks[i] = w.acquired.Load()
	}
	r := &HotReport{WaitMs: granted.summary(), MaxWaitMs: milliseconds(longest)}
	r.LocksPerCallerCV, r.MinShare = fairness(locks)
	return r
}

// fairness returns the standard deviation and the least of the locks of all callers, each over
// their mean. Both are 0 where there are no locks.
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
