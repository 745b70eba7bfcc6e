package multiplex

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/batch"
)

const (
	// slowAfter is after what time others do not wait any more for a near node that owes an answer.
	slowAfter = 10 * time.Millisecond
	// forgetAfter is for how long a slow node may still read what was decided without it.
	forgetAfter = 100 * time.Millisecond
)

// aging looks at the rounds that some node is not done with, by one timer for all of them. Most are
// done with when it comes to them. It has no goroutine of its own.
type aging struct {
	// look looks at one round, and returns when to look again.
	look func(r *batch.Round[Attempt, roundState]) (next time.Duration)
	// first is the age at which a round is looked at.
	first time.Duration
	// passedOver is when the log last passed over each node, by the time since began.
	passedOver []atomic.Int64
	began      time.Time
	lateness   *lateness

	mu     sync.Mutex                          // guards all below; a leaf
	rounds []*batch.Round[Attempt, roundState] // the oldest first
	timer  *time.Timer
	armed  bool // the timer runs, or run does
}

func newAging(
	nodes int, first time.Duration,
	look func(*batch.Round[Attempt, roundState]) time.Duration, late *lateness,
) *aging {
	a := &aging{
		look: look, first: first, passedOver: make([]atomic.Int64, nodes), began: time.Now(),
		lateness: late,
	}
	a.timer = time.AfterFunc(math.MaxInt64, a.run)
	a.timer.Stop()
	return a
}

// add takes a round that was opened.
func (a *aging) add(r *batch.Round[Attempt, roundState]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rounds = append(a.rounds, r)
	if !a.armed {
		a.armed = true
		a.runAfter(a.first)
	}
}

// runAfter sets the timer. mu is held.
func (a *aging) runAfter(d time.Duration) {
	a.lateness.looked(d)
	a.timer.Reset(d)
}

// run looks at all rounds, and forgets those that all nodes are done with.
func (a *aging) run() {
	a.lateness.looked(0)
	a.mu.Lock()
	rounds := a.rounds
	a.rounds = nil
	a.mu.Unlock()
	next := a.first
	others := rounds[:0]
	for _, r := range rounds {
		if r.State.undone() != 0 {
			next = min(next, a.look(r))
			others = append(others, r)
		}
	}
	clear(rounds[len(others):])
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rounds = append(others, a.rounds...)
	if a.armed = len(a.rounds) > 0; a.armed {
		a.runAfter(max(next, time.Microsecond))
	} else {
		a.lateness.looked(-1)
	}
}

// look runs when a round is so old that a node may be slow, and again until all are done with it.
// It returns after what time the next look is due.
//
// A slow node does not count any more for the quorum that seals a round, until it answers. It gets
// no more of what it has not read yet: if all of a round is decided, after forgetAfter, otherwise
// after NodeTimeout. Then it hangs, and the callers look, each for itself. So no round stays in
// memory for it.
func (m *Mux) look(r *batch.Round[Attempt, roundState]) (next time.Duration) {
	s := &r.State
	old, wake := s.age()
	next = m.cfg.NodeTimeout / looksOfNode
	for rest := s.undone(); rest != 0; rest &= rest - 1 {
		i := rest.Lowest()
		n := m.nodes[i]
		owes, underWay := m.owes(i)
		switch reads := n.Link.State().IsConnected() && m.begun.Load(); {
		case !reads:
			owes = old
		case !underWay:
			owes = 0
		}
		slow := min(m.cfg.NodeTimeout, max(slowAfter, n.SlowTrip()))
		if owes < slow {
			next = min(next, slow-owes)
			continue
		}
		hangs := owes >= m.cfg.NodeTimeout
		wake = wake || hangs
		if !m.passOver(i, hangs) {
			next = min(next, passOverEvery)
		}
		if !hangs {
			next = min(next, m.cfg.NodeTimeout-owes)
		}
		if old < forgetAfter {
			next = min(next, forgetAfter-old)
		}
	}
	if wake {
		s.wakeAll()
	}
	return next
}

// passOverEvery is how often the log passes over a node that is slow, at most: each time it looks
// at all that the node has not read.
const passOverEvery = 5 * time.Millisecond

// passOver takes the node out of the quorum that seals rounds until it answers, and lets it miss
// what it need not read any more. It returns false, and does nothing, if it did so just before.
func (m *Mux) passOver(i int, hangs bool) bool {
	before := &m.aging.passedOver[i]
	now, last := int64(time.Since(m.aging.began)), before.Load()
	if now-last < int64(passOverEvery) || !before.CompareAndSwap(last, now) {
		return false
	}
	m.log.Hang(i)
	m.log.Skip(i, func(r *batch.Round[Attempt, roundState]) bool { return isPast(r, hangs) })
	return true
}
