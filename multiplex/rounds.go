package multiplex

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
)

// maxPending is the most acquires that wait for one node. That is far more than can come during its
// answer time, and takes a few hundred megabytes.
const maxPending = 1 << 18

// systemSet is a set of quorum systems by their index.
type systemSet [quorum.MaxSystems / 64]uint64

func (s *systemSet) add(i uint8)    { s[i/64] |= 1 << (i % 64) }
func (s *systemSet) has(i int) bool { return s[i/64]>>(i%64)&1 == 1 }

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
	decided  chan struct{} // closed when callers are to look at their votes
	closed   atomic.Bool   // decided is
	opened   time.Time

	// Set when it is sealed:

	commands node.Round
	systems  systemSet // of its attempts; empty if the Mux has one

	mu      sync.Mutex    // guards all below; a leaf
	why     []error       // why a node has missed it; nil before one has
	left    quorum.Nodes  // nodes that are not done with it
	changed chan struct{} // closed when a node is done, or an attempt is decided; nil: nobody waits
}

func (m *Mux) newLog() *batch.Log[Attempt, roundState] {
	m.aging = newAging(len(m.nodes), min(slowAfter, m.cfg.NodeTimeout), m.look, &m.lateness)
	return batch.New(batch.Config[Attempt, roundState]{
		Readers: len(m.nodes), Quorum: quorum.Need(len(m.nodes)),
		Weight:   func(a *Attempt) int { return a.op.Keys.Weight() },
		FollowUp: func(a *Attempt) bool { return a.op.Kind != node.Acquire },
		Open:     m.openRound, Emptied: m.dropRound, Seal: m.sealRound,
		Read: m.read, Missed: m.missed,
		// A second trip to a near node starts when as much waits as the node can take at once.
		MaxWeight: node.MaxFlush, Window: link.MaxTrips, Limit: maxPending,
		OverlapAt: func(i int) int { return m.nodes[i].OverlapThreshold() },
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
	var commands node.Round
	var systems systemSet
	commands.Shared = m.group.NewEncodings(m.nodes)
	for i, a := range r.Ops() {
		if before := a.op.Sent.Add(a.maxAge); a.op.Kind != node.Release &&
			(commands.SendBefore.IsZero() || before.Before(commands.SendBefore)) {
			commands.SendBefore = before
		}
		if !a.op.Directed {
			commands.Shared.Add(i, &a.op)
		}
		if len(m.systems) > 1 {
			systems.add(a.claim.quorums)
		}
	}
	commands.Shared.End()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands, s.systems, s.opened = commands, systems, time.Now()
	others := m.all() &^ quorum.Nodes(r.Readers()) // which it never comes to
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
	set.Or(uint64(quorum.Node(i)))
	used := s.systems
	s.mu.Unlock()
	m.wakeIfDecided(s, used)
	s.mu.Lock()
	s.left &^= quorum.Node(i)
	s.tellChanged()
	last := s.left == 0
	s.mu.Unlock()
	if last {
		m.end(r)
	}
}

// wakeIfDecided lets the callers look at their votes if those of some quorum system in use may
// decide. The callers that find nothing decided look again when another node is done. If a system
// does not have all nodes, its votes are recorded, and wake the callers.
func (m *Mux) wakeIfDecided(s *roundState, used systemSet) {
	answered := quorum.Nodes(s.answered.Load())
	without := quorum.Nodes(s.missed.Load() | s.failed.Load())
	recorded := s.recorded.Load()
	for i := range m.systems {
		if (len(m.systems) == 1 || used.has(i)) &&
			m.systems[i].MayDecide(answered, without, recorded) {
			s.wakeAll()
			return
		}
	}
}

// end ends a round that all nodes are done with.
func (m *Mux) end(r *batch.Round[Attempt, roundState]) {
	s := &r.State
	s.wakeAll()
	for _, a := range r.Ops() {
		if a.op.Kind == node.Extend {
			a.allAnswered()
		}
	}
	s.mu.Lock()
	m.group.Recycle(s.commands.Shared)
	s.commands.Shared = node.Encodings{}
	s.mu.Unlock()
	r.Drop()
}

// age returns how old the round is: since it was sealed, or since it was opened. over: some of its
// attempts are of no use any more, or it was not sealed for too long.
func (s *roundState) age() (old time.Duration, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old = time.Since(s.opened); s.commands.Shared == (node.Encodings{}) {
		return old, old >= s.mux.cfg.NodeTimeout
	}
	return old, !s.commands.SendBefore.IsZero() && time.Now().After(s.commands.SendBefore)
}

// isPast reports whether a slow node, which has not read the round, need not read it any more.
// hangs: it owes an answer for NodeTimeout. It does not need the claims' locks.
func isPast(r *batch.Round[Attempt, roundState], hangs bool) bool {
	s := &r.State
	if s.isLeft() {
		return false
	}
	old, _ := s.age()
	answered := quorum.Nodes(s.answered.Load())
	isOpen := func(a *Attempt) bool { return a.isOpen(answered) }
	return hangs && old >= s.mux.cfg.NodeTimeout ||
		old >= forgetAfter && !slices.ContainsFunc(r.Ops(), isOpen)
}

// isLeft reports whether the round holds only releases that one node skipped and must still get. No
// other node reads it.
func (s *roundState) isLeft() bool { return s.mux == nil }

// undone returns the nodes that are not done with the round.
func (s *roundState) undone() quorum.Nodes {
	return s.mux.all() &^ quorum.Nodes(s.answered.Load()|s.missed.Load()|s.failed.Load())
}

// missedBecause returns why a node has missed the round.
func (s *roundState) missedBecause(i int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil {
		return node.ErrConnectionLost
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

// nextChange returns a channel that is closed by the next change.
func (s *roundState) nextChange() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// change has those that wait for a change look at their votes.
func (s *roundState) change() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellChanged()
}

// tellChanged is change for one who holds mu.
func (s *roundState) tellChanged() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}
