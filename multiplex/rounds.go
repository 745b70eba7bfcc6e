package multiplex

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/holders"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/lockpipe/lockpipe/internal/stats"
)

// maxPending is the most acquires that wait for one node. That is far more than can come during its
// answer time, and takes a few hundred megabytes.
const maxPending = 1 << 18

// round is a round of the log.
type round = batch.Round[Attempt, roundState]

// roundState is what became of a round, by the nodes. Grants are counted together, and only a vote
// that is no grant takes work of its own:
//
//  1. A node is done with a round once: when it has answered the round, or has missed it.
//  2. Before that, each of its votes is recorded that is no grant (Claim.record). So a caller
//     that sees that the node is done sees these votes too.
//  3. A node that is ok has granted the rest. It has answered every command of the round, and its
//     connection counted until then. Of any other node the grants are recorded too.
//  4. An attempt has a vote of a node at most once, unless it is a release whose vote is unknown.
//     What a node says of an acquire or extension that was given up for unknown is no vote.
//  5. The callers are woken when the votes may decide, and then by each further node.
type roundState struct {
	ok, done atomic.Uint64
	// eager: each node that is done wakes the callers. It is set when the round is NodeTimeout old,
	// and by a caller whose attempt fewer nodes may decide.
	eager  atomic.Bool
	opened time.Time // set once
	old    bool      // it is eager because of its age; guarded by lookout.mu

	// Set when it is sealed:

	commands node.Round
	sealed   time.Time

	mu      sync.Mutex    // guards changed; a leaf
	changed chan struct{} // closed when to look at the votes; nil: nobody waits
}

func (m *Mux) newLog() *batch.Log[Attempt, roundState] {
	m.lookout.init(len(m.nodes), min(slowAfter, m.cfg.NodeTimeout), m.look)
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
func (m *Mux) openRound(r *round) {
	r.State.opened = time.Now()
	m.lookout.add(r)
}

// dropRound ends a round all of whose attempts were cancelled. The log is locked.
func (m *Mux) dropRound(r *round) { r.State.done.Store(uint64(m.all())) }

// sealRound makes the commands that all nodes are sent, for each set that is in use.
func (m *Mux) sealRound(r *round) {
	s := &r.State
	s.sealed = time.Now()
	s.done.Store(uint64(m.all()) &^ r.Readers()) // to the others it never comes
	s.commands.Shared, s.commands.Size = m.group.NewEncodings(m.nodes), len(r.Ops())
	for i, a := range r.Ops() {
		if before := a.op.Sent.Add(a.maxAge); a.op.Kind != node.Release &&
			(s.commands.SendBefore.IsZero() || before.Before(s.commands.SendBefore)) {
			s.commands.SendBefore = before
		}
		if !a.op.Directed {
			s.commands.Shared.Add(i, &a.op)
		}
	}
	s.commands.Shared.End()
}

// trip is one trip of a node through the log.
type trip = batch.Trip[Attempt, roundState]

// read sends a trip.
func (m *Mux) read(t *trip) {
	n := m.nodes[t.Reader]
	f := n.NewFlush(t)
	for _, r := range t.Rounds {
		f.AddRound(&r.State.commands)
		for _, a := range r.Ops() {
			f.Add((*operation)(a), a.asks(t.Reader))
		}
	}
	n.Send(f)
}

// takeAnswers takes what a node has answered to a trip.
func (m *Mux) takeAnswers(f *node.Flush) {
	t := f.Reading.(*trip)
	answers := f.Answers
	for _, r := range t.Rounds {
		for at, a := range r.Ops() {
			if v := &answers[at]; !v.NotAsked && (v.Vote != node.Granted || !f.Counts) {
				m.record(a, t.Reader, *v)
			}
		}
		answers = answers[len(r.Ops()):]
		m.finish(r, t.Reader, f.Counts)
	}
	t.End()
}

// missed takes rounds that a node does not get: it is down, hangs, or is too far behind. The node
// keeps the releases of what it may hold.
func (m *Mux) missed(i int, rounds []*round) {
	n := m.nodes[i]
	why, down := n.Link.Rejects()
	reason := rejection(n.Link)
	if !down {
		why, reason = &holders.TimeoutError{Timeout: m.cfg.NodeTimeout}, stats.FailedQueuedTooLong
	}
	for _, r := range rounds {
		asked := uint64(0)
		for _, a := range r.Ops() {
			if a.asks(i) {
				asked++
				m.record(a, i, node.Answer{LeftNothing: true, Err: why})
			}
		}
		n.Counts.Failures[reason].Add(asked)
		m.finish(r, i, false)
	}
	if !down {
		n.SendPending()
	}
}

// rejection returns as what an operation counts that a node misses because its link rejects.
func rejection(l *link.Link) stats.NodeFailure {
	if l.State() == link.Quarantined {
		return stats.FailedQuarantined
	}
	return stats.FailedDown
}

// finish says that a node is done with a round.
func (m *Mux) finish(r *round, i int, ok bool) {
	s, bit := &r.State, uint64(quorum.Node(i))
	if ok {
		s.ok.Or(bit)
	}
	done := quorum.Nodes(s.done.Or(bit) | bit)
	may := func(q quorum.System) bool { return q.MayDecide(done) }
	if s.eager.Load() || slices.ContainsFunc(m.systems, may) {
		s.wake()
	}
	if done == m.all() {
		m.end(r)
	}
}

// end ends a round that all nodes are done with.
func (m *Mux) end(r *round) {
	for _, a := range r.Ops() {
		if a.op.Kind == node.Extend {
			a.claim.forget(a)
		}
	}
	m.group.Recycle(r.State.commands.Shared)
	r.State.commands = node.Round{}
	r.Drop()
}

// wake lets the callers look at their votes.
func (s *roundState) wake() {
	s.mu.Lock()
	changed := s.changed
	s.changed = nil
	s.mu.Unlock()
	if changed != nil {
		close(changed)
	}
}

// nextChange returns a channel that is closed by the next wake.
func (s *roundState) nextChange() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// isPast reports whether a slow node, which has not read the round, need not read it any more.
// hangs: it owes an answer for NodeTimeout. It does not need the claims' locks.
func (m *Mux) isPast(r *round, hangs bool) bool {
	old, ok := time.Since(r.State.sealed), quorum.Nodes(r.State.ok.Load())
	isOpen := func(a *Attempt) bool { return a.isOpen(ok) }
	return hangs && old >= m.cfg.NodeTimeout ||
		old >= forgetAfter && !slices.ContainsFunc(r.Ops(), isOpen)
}
