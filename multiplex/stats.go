package multiplex

import "sync/atomic"

// Stats are counts since New, except PendingReleases and ForeignLayouts.
type Stats struct {
	// Flushes is the number of trips made to all nodes together.
	Flushes uint64
	// Operations is the number of attempts and subscriptions that they carried. Each counts once
	// for each node that it was sent to.
	Operations uint64
	// Attempts is the number of acquires that were started, by Acquire and by AcquireViaArbiter.
	Attempts uint64
	// SplitVotes is the number of acquires without a quorum for which some nodes granted and some
	// refused, together as many as a quorum. Had the contenders agreed, one of them would have had
	// it. An acquire also counts if another caller won in spite of the split.
	SplitVotes uint64
	// PendingReleases is the number of releases that are kept now for nodes that could not answer
	// them, added up over the nodes.
	PendingReleases int
	// DroppedReleases is the number of releases that were kept and then dropped, because their keys
	// had expired or too many were kept.
	DroppedReleases uint64
	// ForeignLayouts is the number of layouts that other clients use now, as far as this one knows,
	// and that have no quorum in common with its own.
	ForeignLayouts int
}

// counts are what the Mux counts itself.
type counts struct{ attempts, splitVotes atomic.Uint64 }

// Stats returns the counts. They are not taken at one moment.
func (m *Mux) Stats() Stats {
	s := Stats{Attempts: m.counts.attempts.Load(), SplitVotes: m.counts.splitVotes.Load()}
	s.ForeignLayouts = m.fleet.Foreign()
	for _, n := range m.nodes {
		flushes, operations := n.Flushed()
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
	granted, refused, _ := a.votes()
	if a.splitCounted || granted == 0 || refused == 0 ||
		granted+refused < quorum(len(a.mux.nodes)) {
		return
	}
	a.splitCounted = true
	a.mux.counts.splitVotes.Add(1)
}
