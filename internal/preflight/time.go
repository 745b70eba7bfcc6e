package preflight

import (
	"cmp"
	"slices"
	"time"
)

// maxDrift is the part of a TTL by which a lease is shorter on the client's clock, because clocks
// run at different rates.
const maxDrift = 0.01

// roundTrips returns the median and the longest round trip of at least one sample.
func roundTrips(samples []Sample) (median, longest time.Duration) {
	all := make([]time.Duration, len(samples))
	for i, s := range samples {
		all[i] = s.RoundTrip().Round(10 * time.Microsecond)
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)-1]
}

// checkTimes compares the round trips with the time that an attempt waits, and the rate of the
// server's clock with that of the client's. The time on them does not matter: the client sends
// durations only.
func (f *findings) checkTimes(samples []Sample) {
	if len(samples) == 0 {
		return
	}
	if _, longest := roundTrips(samples); longest > f.cfg.NodeTimeout/2 {
		f.warnf("took %v for one of %d answers, more than half of NodeTimeout (%v), so votes "+
			"may come too late: raise it, or find what delays it",
			longest, len(samples), f.cfg.NodeTimeout)
	}
	drift, uncertain, ok := clockDrift(samples)
	switch {
	case !ok:
	case drift-uncertain > maxDrift:
		f.errorf("its clock ran %.1f %% too fast against ours (give or take %.1f %%), or was "+
			"set: keys may expire before their leases end; correct its clock",
			drift*percent, uncertain*percent)
	case -drift-uncertain > maxDrift:
		f.errorf("its clock ran %.1f %% too slow against ours (give or take %.1f %%), or was "+
			"set, or ours is too fast: correct the clocks",
			-drift*percent, uncertain*percent)
	case uncertain > maxDrift:
		f.infof("the rate of its clock could not be checked: its answers took too long to "+
			"tell 1 %% (only %.1f %%)", uncertain*percent)
	}
}

// clockDrift returns by which part the server's clock ran faster than the client's from the first
// samples to the last, and how far that may be wrong. A server reads its clock at some moment of
// the round trip, so each end may be wrong by half of one. clockDrift takes the quickest answer of
// the first third and of the last.
func clockDrift(samples []Sample) (drift, uncertain float64, ok bool) {
	n := len(samples)
	if n < 2 {
		return 0, 0, false
	}
	third := max(1, n/3)
	first, last := quickest(samples[:third]), quickest(samples[n-third:])
	if first.Server.IsZero() || last.Server.IsZero() {
		return 0, 0, false
	}
	middle := func(s Sample) time.Time { return s.Sent.Add(s.RoundTrip() / 2) }
	ours, theirs := middle(last).Sub(middle(first)), last.Server.Sub(first.Server)
	if ours <= 0 {
		return 0, 0, false
	}
	const resolution = time.Microsecond // of TIME
	inexact := (first.RoundTrip()+last.RoundTrip())/2 + resolution
	return float64(theirs)/float64(ours) - 1, float64(inexact) / float64(ours), true
}

// quickest returns the sample with the shortest round trip.
func quickest(samples []Sample) Sample {
	return slices.MinFunc(samples, func(a, b Sample) int {
		return cmp.Compare(a.RoundTrip(), b.RoundTrip())
	})
}
