package multiplex

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/link"
)

// roundState is what became of a round, by the nodes. The vote of a node on an attempt is the one
// that was recorded for it. If there is none, it is a grant if the node has answered, and unknown
// if the node has missed the round. So the votes of a round are counted together, and only a vote
// that is no grant takes work of its own. A node is in at most one of the three sets.
type roundState struct {
	mux *Mux
	// Nodes that answered every command of the round, on a connection that counted until then.
	answered atomic.Uint64
	// Nodes that were not sent the round, and never will be.
	missed atomic.Uint64
	// Nodes that did neither. Their votes were recorded, each alone.
	failed atomic.Uint64
	// A vote was recorded.
	recorded atomic.Bool
	// Most of its attempts are decided.
	settled atomic.Bool
	decided chan struct{} // closed when callers are to look at their votes
	closed  atomic.Bool   // decided is
	opened  time.Time

	// Set when it is sealed:

	// What all nodes with the same commands are sent; nil: none was connected.
	shared     [link.CommandSets]*encoding
	sendBefore time.Time // when the first of its attempts is of no use any more
	oldest     time.Time // when the first of them began

	mu       sync.Mutex // guards all below; a leaf
	why      []error    // why a node has missed it; nil before one has
	left     nodeSet    // nodes that are not done with it
	sleepers []*Attempt // that are to decide whenever a node is done
}

func (m *Mux) newLog() *batch.Log[Attempt, roundState] {
	m.aging = newAging(min(slowAfter, m.cfg.NodeTimeout), m.look)
	return batch.New(batch.Config[Attempt, roundState]{
		Readers: len(m.nodes), Quorum: quorum(len(m.nodes)),
		Weight:   func(a *Attempt) int { return a.claim.Len() },
		FollowUp: func(a *Attempt) bool { return a.kind != acquire },
		Open:     m.openRound, Emptied: m.dropRound, Seal: m.sealRound,
		Read: func(t *batch.Trip[Attempt, roundState]) { m.nodes[t.Reader].read(t) },
		Missed: func(i int, rounds []*batch.Round[Attempt, roundState], keep bool) []*Attempt {
			return m.nodes[i].missed(rounds, keep)
		},
		// A second trip to a near node starts when as much waits as the node can take at once.
		MaxWeight: maxFlush, Window: link.MaxTrips, Limit: maxPending,
		OverlapAt: func(i int) int { return m.nodes[i].rtt.overlapThreshold() },
	})
}

// openRound prepares a round that takes attempts. The log is locked.
func (m *Mux) openRound(r *batch.Round[Attempt, roundState]) {
	s := &r.State
	s.mux, s.decided, s.left, s.opened = m, make(chan struct{}), m.all(), time.Now()
	m.aging.add(r)
}

// dropRound ends a round all of whose attempts were cancelled. Their votes are recorded one by one,
// and the callers look at them. The log is locked.
func (m *Mux) dropRound(r *batch.Round[Attempt, roundState]) {
	r.State.failed.Or(uint64(m.all()))
	r.State.wakeAll()
}

// sealRound makes the commands that all nodes are sent, for each set that is in use.
func (m *Mux) sealRound(r *batch.Round[Attempt, roundState]) {
	s := &r.State
	var shared [link.CommandSets]*encoding
	for set, used := range m.usedSets() {
		if used {
			shared[set] = m.newEncoding(link.CommandSet(set))
		}
	}
	var sendBefore time.Time
	for i, a := range r.Ops() {
		if before := a.sent.Add(a.maxAge); a.kind != release &&
			(sendBefore.IsZero() || before.Before(sendBefore)) {
			sendBefore = before
		}
		if i == 0 || a.sent.Before(s.oldest) {
			s.oldest = a.sent
		}
		if a.directed() {
			continue
		}
		for _, e := range shared {
			if e != nil {
				e.add(i, a)
			}
		}
	}
	for _, e := range shared {
		if e != nil {
			e.end()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared, s.sendBefore, s.opened = shared, sendBefore, time.Now()
	others := m.all() &^ nodeSet(r.Readers()) // which it never comes to
	s.failed.Or(uint64(others))
	s.left &^= others
}

// finish says that a node is done with a round. It goes into one of the three sets.
func (m *Mux) finish(r *batch.Round[Attempt, roundState], i int, set *atomic.Uint64, why error) {
	s := &r.State
	s.mu.Lock()
	if why != nil {
		if s.why == nil {
			s.why = make([]error, len(m.nodes))
		}
		s.why[i] = why
	}
	set.Or(uint64(nodeBit(i)))
	sleepers := s.sleepers
	s.mu.Unlock()
	answered := nodeSet(s.answered.Load()).count()
	without := nodeSet(s.missed.Load() | s.failed.Load()).count()
	// With an even number of nodes, fewer refusals than grants decide.
	need := quorum(len(m.nodes))
	lose := len(m.nodes) - need + 1
	if answered >= need || without >= lose || s.recorded.Load() && answered+without >= lose {
		s.settled.Store(true)
		s.wakeAll()
	}
	for _, a := range sleepers {
		a.claim.mu.Lock()
		a.tryDecide()
		a.claim.mu.Unlock()
	}
	s.mu.Lock()
	s.left &^= nodeBit(i) // when nothing here uses the attempts any more
	last := s.left == 0
	s.mu.Unlock()
	if last {
		m.end(r)
	}
}

// end ends a round that all nodes are done with.
func (m *Mux) end(r *batch.Round[Attempt, roundState]) {
	s := &r.State
	s.wakeAll()
	for _, a := range r.Ops() {
		if a.kind == extend {
			a.allAnswered()
		}
	}
	s.mu.Lock()
	for _, e := range s.shared {
		if e != nil {
			m.encodings.Put(e)
		}
	}
	s.shared, s.sleepers = [link.CommandSets]*encoding{}, nil
	s.mu.Unlock()
	r.Drop()
}

// age returns how old the round is: since it was sealed, or since it was opened. over: some of its
// attempts are of no use any more, or it was not sealed for too long.
func (s *roundState) age() (old time.Duration, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old = time.Since(s.opened); s.shared == ([link.CommandSets]*encoding{}) {
		return old, old >= s.mux.cfg.NodeTimeout
	}
	return old, !s.sendBefore.IsZero() && time.Now().After(s.sendBefore)
}

// isPast reports whether a slow node need not read the round any more. hangs: it owes an answer for
// NodeTimeout.
func (s *roundState) isPast(hangs bool) bool {
	if s.isLeft() {
		return false
	}
	old, _ := s.age()
	return hangs && old >= s.mux.cfg.NodeTimeout || s.settled.Load() && old >= forgetAfter
}

// isLeft reports whether the round has releases alone, which one node is to read although it has
// missed their rounds.
func (s *roundState) isLeft() bool { return s.mux == nil }

// undone returns the nodes that are not done with the round.
func (s *roundState) undone() nodeSet {
	return s.mux.all() &^ nodeSet(s.answered.Load()|s.missed.Load()|s.failed.Load())
}

// missedBecause returns why a node has missed the round.
func (s *roundState) missedBecause(i int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil {
		return errConnectionLost
	}
	return s.why[i]
}

// wakeAll lets the callers look at their votes.
func (s *roundState) wakeAll() {
	if !s.closed.Swap(true) {
		close(s.decided)
	}
}

// await returns when the callers are to look at their votes, or ctx ends.
func (s *roundState) await(ctx context.Context) {
	ended := ctx.Done()
	if ended == nil {
		<-s.decided
		return
	}
	select {
	case <-s.decided:
	case <-ended:
	}
}

// addSleeper has an attempt decide whenever a node is done with the round.
func (s *roundState) addSleeper(a *Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sleepers = append(s.sleepers, a)
}
