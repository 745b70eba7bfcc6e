package lockpipe

import (
	"time"

	"github.com/lockpipe/lockpipe/multiplex"
)

// maxDrift is the part of a TTL that a lease is shorter on our clock, for clocks that run at
// different rates.
const maxDrift = 0.01

// judgeClock is about the rate of a server's clock. How far it is from ours does not matter:
// nothing but durations is sent.
func (f *findings) judgeClock(samples []multiplex.Sample) {
	drift, uncertain, ok := clockDrift(samples)
	switch {
	case !ok:
	case drift-uncertain > maxDrift:
		f.add(SeverityError, "its clock ran %.1f %% too fast against ours (give or take %.1f "+
			"%%), or was set: keys may expire before their leases end; mend its clock",
			drift*percent, uncertain*percent)
	case -drift-uncertain > maxDrift:
		f.add(SeverityError, "its clock ran %.1f %% too slow against ours (give or take %.1f "+
			"%%), or was set, or ours is too fast: mend the clocks",
			-drift*percent, uncertain*percent)
	case uncertain > maxDrift:
		f.add(SeverityInfo, "the rate of its clock could not be checked: its answers took too "+
			"long to tell 1 %% (only %.1f %%)", uncertain*percent)
	}
}

// clockDrift is by which part the server's clock ran faster than ours from the first samples to the
// last, and how far that may be wrong. An answer was made at some moment of its round trip, so each
// end may be wrong by half of one. Of the first third and of the last the quickest answers are
// taken.
func clockDrift(samples []multiplex.Sample) (drift, uncertain float64, ok bool) {
	n := len(samples)
	if n < 2 {
		return 0, 0, false
	}
	third := max(1, n/3)
	first, last := quickest(samples[:third]), quickest(samples[n-third:])
	if first.Server.IsZero() || last.Server.IsZero() {
		return 0, 0, false
	}
	middle := func(s multiplex.Sample) time.Time { return s.Sent.Add(s.RoundTrip() / 2) }
	ours, theirs := middle(last).Sub(middle(first)), last.Server.Sub(first.Server)
	if ours <= 0 {
		return 0, 0, false
	}
	// In which a server tells its time.
	inexact := (first.RoundTrip()+last.RoundTrip())/2 + time.Microsecond
	return float64(theirs)/float64(ours) - 1, float64(inexact) / float64(ours), true
}

// quickest is the sample with the shortest round trip.
func quickest(samples []multiplex.Sample) multiplex.Sample {
	best := samples[0]
	for _, s := range samples[1:] {
		if s.RoundTrip() < best.RoundTrip() {
			best = s
		}
	}
	return best
}
