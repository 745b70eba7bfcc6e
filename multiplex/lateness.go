package multiplex

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/quorum"
)

const (
	// slowAfter is after what time others do not wait any more for a near node that owes an answer.
	slowAfter = 10 * time.Millisecond
	// forgetAfter is for how long a slow node may still read what was decided without it.
	forgetAfter = 100 * time.Millisecond
	// lateAfter is by how much a timer may be late before the process counts as late.
	lateAfter = 5 * time.Millisecond
	// looksOfNode is how often a timer runs, at least, before a node is given up. So a process that
	// is late all the time still gives a node up: each look adds the time that it waited for.
	looksOfNode = 8
)

// lookout looks at the nodes as long as some node is not done with a round, and at these rounds, by
// one timer. Most rounds are done when it comes to them.
//
// It also notices when this process itself was late: throttled, stopped, or without a CPU. The
// process has not read then what the nodes answered, so nodes owe nothing for that time. All
// methods are safe for concurrent use.
type lookout struct {
	first time.Duration // after what time the first look comes; set once
	// By node: since when it has owed an answer, if it hangs; nil: it does not. Thousands of
	// callers read that when their attempts are old, so there is no lock.
	hanging []atomic.Pointer[time.Time]

	mu     sync.Mutex // guards all below; it comes before those of rounds
	timer  *time.Timer
	rounds []*round                      // that some node may not be done with, the oldest first
	due    time.Time                     // when the timer fires; zero: it is not set
	times  [2 * looksOfNode][2]time.Time // from when to when the process was late, the last times
	next   int                           // the index of the oldest
}

// init has the timer call look, which calls looked.
func (l *lookout) init(nodes int, first time.Duration, look func()) {
	l.first, l.timer = first, time.AfterFunc(math.MaxInt64, look)
	l.hanging = make([]atomic.Pointer[time.Time], nodes)
	l.timer.Stop()
}

// noteHanging notes whether node i hangs, and since when it owes an answer. It reports whether the
// node did not hang before.
func (l *lookout) noteHanging(i int, hangs bool, since time.Time) (isNew bool) {
	switch isNew = hangs && l.hanging[i].Load() == nil; {
	case !hangs:
		l.hanging[i].Store(nil)
	case isNew:
		l.hanging[i].Store(&since)
	}
	return isNew
}

// add takes a round that was opened.
func (l *lookout) add(r *round) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rounds = append(l.rounds, r); l.due.IsZero() {
		l.set(l.first)
	}
}

// forget forgets the rounds that are over.
func (l *lookout) forget(over func(r *round) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rounds = slices.DeleteFunc(l.rounds, over)
}

// looked is called when the timer has fired, with 0, and then with the time until the next look.
// That comes only if there are rounds.
func (l *lookout) looked(next time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case next == 0:
		l.due = l.note()
	case len(l.rounds) > 0:
		l.set(next)
	default:
		l.note()
		l.due = time.Time{}
		for i := range l.hanging {
			l.hanging[i].Store(nil) // the next look sees what is true then
		}
	}
}

// set sets the timer. mu is held.
func (l *lookout) set(d time.Duration) {
	l.due = l.note().Add(d)
	l.timer.Reset(d)
}

// note notes that the timer is late, if it is. It returns the time. mu is held.
func (l *lookout) note() (now time.Time) {
	now = time.Now()
	if !l.due.IsZero() && now.Sub(l.due) >= lateAfter {
		if newest := &l.times[(l.next+len(l.times)-1)%len(l.times)]; newest[1].Equal(l.due) {
			newest[1] = now
		} else {
			l.times[l.next] = [2]time.Time{l.due, now}
			l.next = (l.next + 1) % len(l.times)
		}
		l.due = now
	}
	return now
}

// late returns for how long the process was late since a time.
func (l *lookout) late(since time.Time) (d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note()
	for _, t := range l.times {
		d += max(0, min(t[1].Sub(t[0]), t[1].Sub(since)))
	}
	return d
}

// owes returns for how long node i has owed an answer, without the time in which this process was
// late: see node.OwesFor.
func (m *Mux) owes(i int) (d time.Duration, underWay bool) {
	d, underWay = m.nodes[i].OwesFor()
	return d - m.lookout.late(time.Now().Add(-d)), underWay
}

// look looks at each node, and has the callers look at the votes of each round that is NodeTimeout
// old: when it becomes so old, and when a node begins to hang.
//
// A slow node, or one that is not connected yet, does not count any more for the quorum that seals
// a round, until it answers. It misses what it has not read yet: if all of a round is decided,
// after forgetAfter. After NodeTimeout the node hangs, and misses all rounds that are as old. So no
// round stays in memory for it.
func (m *Mux) look() {
	m.lookout.looked(0)
	// The timer may be in time although goroutines wait for long: those that read the answers too.
	// This goroutine waits behind them, and what it waits counts as late.
	runtime.Gosched()
	next, more := m.cfg.NodeTimeout/looksOfNode, false
	for i, n := range m.nodes {
		owes, underWay := m.owes(i)
		slow := min(m.cfg.NodeTimeout, max(slowAfter, n.SlowTrip()))
		hangs := !n.Link.State().IsConnected() || !m.begun.Load() ||
			underWay && owes >= m.cfg.NodeTimeout
		more = m.lookout.noteHanging(i, hangs, time.Now().Add(-owes)) || more
		switch {
		case hangs || underWay && owes >= slow:
			m.log.Hang(i, func(r *round) bool { return m.isPast(r, hangs) })
			if next = min(next, forgetAfter/4); !hangs {
				next = min(next, m.cfg.NodeTimeout-owes)
			}
		case underWay:
			next = min(next, slow-owes)
		}
	}
	var old []*round
	m.lookout.forget(func(r *round) bool {
		s := &r.State
		switch left := m.cfg.NodeTimeout - time.Since(s.opened); {
		case left > 0:
			next = min(next, left)
		case more || !s.old: // callers that begin to wait from now on have a timer
			s.old, old = true, append(old, r)
		}
		return quorum.Nodes(s.done.Load()) == m.all()
	})
	for _, r := range old {
		r.State.eager.Store(true)
		r.State.wake()
	}
	m.lookout.looked(max(next, time.Microsecond))
}
