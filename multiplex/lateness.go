package multiplex

import (
	"sync"
	"time"
)

const (
	// lateAfter is by how much a timer may be late before the process counts as late.
	lateAfter = 5 * time.Millisecond
	// looksOfNode is how often a timer runs, at least, before a node is given up. So a process that
	// is late all the time still gives a node up: each look adds the time that it waited for.
	looksOfNode = 8
)

// lateness is when this process itself was late: throttled, stopped, or without a CPU. It has not
// read then what the nodes answered, so nodes owe nothing for that time. One timer that runs as
// long as a node may owe an answer notices it. All methods are safe for concurrent use.
type lateness struct {
	mu    sync.Mutex                    // guards all below; a leaf
	due   time.Time                     // when the timer fires; zero: it is not set
	times [2 * looksOfNode][2]time.Time // from when to when the process was late, the last times
	next  int                           // the index of the oldest
}

// looked is called when the timer has fired, and again when it is set: it fires after d. A negative
// d says that it is not set any more.
func (l *lateness) looked(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.note()
	if l.due = now.Add(d); d < 0 {
		l.due = time.Time{}
	}
}

// note notes that the timer is late, if it is. It returns the time. mu is held.
func (l *lateness) note() (now time.Time) {
	now = time.Now()
	if !l.due.IsZero() && now.Sub(l.due) >= lateAfter {
		l.times[l.next] = [2]time.Time{l.due, now}
		l.next = (l.next + 1) % len(l.times)
		l.due = now
	}
	return now
}

// since returns for how long the process was late since a time.
func (l *lateness) since(from time.Time) (d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note()
	for _, t := range l.times {
		d += max(0, min(t[1].Sub(t[0]), t[1].Sub(from)))
	}
	return d
}

// owes returns for how long node i has owed an answer, without the time in which this process was
// late: see node.OwesFor.
func (m *Mux) owes(i int) (d time.Duration, underWay bool) {
	d, underWay = m.nodes[i].OwesFor()
	return d - m.lateness.since(time.Now().Add(-d)), underWay
}
