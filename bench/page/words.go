package page

import (
	"fmt"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/figures"
)

// inWords is what the callers of a run did.
func inWords(r *bench.Report) string {
	c := r.Config
	callers := figures.Plural(c.Callers, "caller")
	keys := "of " + figures.Plural(c.Keys, "key")
	several := fmt.Sprintf("%s %s a call", figures.Thousands(c.Batch), keys)
	switch r.Scenario {
	case bench.Single:
		return callers + ", each tries one " + keys
	case bench.Batch:
		return callers + ", " + several + " as one lease"
	case bench.Each:
		return callers + ", " + several + ", with a lease for each"
	case bench.Hot:
		if c.Keys == 1 {
			return callers + ", all wait for one key"
		}
		return callers + ", each waits for one " + keys
	case bench.Cart:
		hot := "the hot key"
		if c.Hot > 1 {
			hot = "one of " + figures.Plural(c.Hot, "hot key")
		}
		return fmt.Sprintf("%s, each waits for %s and %s as one lease", callers, hot,
			figures.Plural(c.Others, "other key"))
	case bench.Move:
		return callers + ", each waits for one " + keys + " while their fleet moves"
	case bench.Hold:
		leases := 0
		if r.HoldReport != nil {
			leases = r.Leases
		}
		return figures.Plural(leases, "lease") + ", held by automatic extension"
	}
	return "scenario " + string(r.Scenario)
}

// noQuorum explains calls that found no quorum, and is "" if there were none.
func noQuorum(r *bench.Report) string {
	if r.NoQuorum == 0 {
		return ""
	}
	text := "No quorum: too few nodes granted the keys of a call, and too few said that another " +
		"holds them. Nothing is granted then, and what the call has set is deleted."
	if r.FaultReport == nil {
		return text
	}
	for _, f := range r.Faults {
		if f.Action == "freeze" {
			return text + " A frozen node says neither. So a call may find no quorum while one node " +
				"is frozen and the votes of the others are divided between two callers."
		}
	}
	return text
}
