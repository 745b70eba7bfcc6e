package multiplex

import "sync/atomic"

// Stats are counts since New, except PendingReleases. lockpipe.Stats has the same fields, and says
// what they mean.
type Stats struct {
	Flushes         uint64
	Operations      uint64
	Attempts        uint64
	SplitVotes      uint64
	PendingReleases int
	DroppedReleases uint64
}

// counts are what the Mux counts itself.
type counts struct{ attempts, splitVotes atomic.Uint64 }

// Stats returns the counts. They are not taken at one moment.
func (m *Mux) Stats() Stats {
	s := Stats{Attempts: m.counts.attempts.Load(), SplitVotes: m.counts.splitVotes.Load()}
	for _, n := range m.nodes {
		flushes, operations := n.Counts.Flushed()
		kept, dropped := n.PendingReleases()
		s.Flushes += flushes
		s.Operations += operations
		s.PendingReleases += kept
		s.DroppedReleases += dropped
	}
	return s
}

// countSplit counts a split vote, once, as soon as the votes of an acquire that failed show it.
// claim.mu is held.
func (a *Attempt) countSplit() {
	if a.splitCounted || a.granted == 0 || a.refused == 0 ||
		!a.system().IsQuorum(a.granted|a.refused) {
		return
	}
	a.splitCounted = true
	a.mux.counts.splitVotes.Add(1)
}
