package multiplex

import "sync/atomic"

// counts are what the Mux counts itself.
type counts struct{ attempts, splitVotes atomic.Uint64 }

// Attempts returns how many attempts to acquire were sent since New, and how many of them failed
// because contenders divided the votes.
func (m *Mux) Attempts() (sent, splitVotes uint64) {
	return m.counts.attempts.Load(), m.counts.splitVotes.Load()
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
