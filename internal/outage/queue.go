// Package outage holds waiting calls back while no quorum of the nodes can grant.
//
// Two kinds of calls are not held back, and try after their delays: those of AcquireAny over
// several groups, and those of a fleet that moves, while other keys of the Mux have a quorum.
package outage

import (
	"cmp"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// MaxAwake is the most calls that a Queue wakes at once: half of what one flush carries. So
	// the nodes answer all of them well within the usual NodeTimeout, and other calls have room.
	MaxAwake = 256
	// MaxAwakeTime is how long woken calls that get no answer keep the next ones from their
	// attempts: twice the usual NodeTimeout.
	MaxAwakeTime = 100 * time.Millisecond
	// ScoutInterval is how often one parked call makes an attempt while nodes are failing. Whether
	// a failing node grants again is certain only when it grants.
	ScoutInterval = time.Second
	// reminderInterval is the time between two reminders in the log that calls wait for a quorum,
	// in ScoutIntervals.
	reminderInterval = 60
)

// Queue has the waiting calls that are parked while no quorum of the nodes can grant. It wakes them
// when the nodes are back. While a quorum is connected, and some of it are failing, it wakes the
// oldest call each ScoutInterval.
//
// A call asks Admit before each attempt that follows one without a quorum. If too few nodes can
// grant, the call is parked: it does nothing until the Queue wakes it. The calls are woken in
// the order of arrival, at most MaxAwake at once. A call that is granted or refused makes room for
// the next one. A call that finds no quorum does not, or all calls would try before the Mux notices
// that the nodes are down again. If no call is woken for MaxAwakeTime, a new round begins: the next
// calls are woken as if those before them did not exist.
//
// While calls are parked and no quorum can grant, the log has a reminder each minute.
//
// No wake-up is lost: Admit looks at the nodes and parks the call under mu, and the Mux calls
// StateChanged after each change of a node's state that leaves a quorum connected.
//
// Rejected: a goroutine that checks the nodes now and then (it costs time and comes late), and one
// broadcast to all calls (a returning node would get thousands of attempts in one moment).
//
// All methods are safe for concurrent use.
type Queue struct {
	// They report whether a quorum can grant, and whether it is connected. canGrant runs under mu.
	canGrant, connected func() bool
	logger              *slog.Logger

	mu       sync.Mutex     // guards all below, and the same in the calls; a leaf
	parked   []*Call        // in the order of arrival
	awake    map[*Call]bool // calls that were woken in this round and have not finished
	roundEnd *time.Timer    // runs nextRound when no call was woken for MaxAwakeTime
	ticking  bool           // tick is to run
	lacking  int            // how many ticks in a row found parked calls, and no quorum to grant
}

// New returns a Queue without calls. canGrant reports whether a quorum can grant, and connected
// whether it can be reached. Both must not block, and must not use the Queue. The owner calls
// StateChanged when a quorum may grant again.
func New(canGrant, connected func() bool, logger *slog.Logger) *Queue {
	q := &Queue{
		canGrant: canGrant, connected: connected, logger: logger, awake: make(map[*Call]bool),
	}
	q.roundEnd = time.AfterFunc(MaxAwakeTime, q.nextRound)
	q.roundEnd.Stop()
	return q
}

// Call is a waiting call as the Queue sees it. Its owner sets Arrived and Wake before the first
// Admit, and calls Admit and Finish one after another.
type Call struct {
	Arrived time.Time
	Wake    func() // it does not block

	// Guarded by the Queue's mu:
	parked bool
	woken  bool // when a quorum could grant
	scouts bool // it was woken to try, although no quorum can grant
}

// Admit reports whether the call may make an attempt now. If not, it parks the call, and calls Wake
// when the call must ask again.
func (q *Queue) Admit(p *Call) (may bool) {
	q.change(func() {
		may = !p.parked && (p.scouts || (p.woken || len(q.parked) == 0) && q.canGrant())
		if p.scouts = p.scouts && !may; may || p.parked {
			return
		}
		q.uncount(p)
		i, _ := slices.BinarySearchFunc(q.parked, p, func(parked, p *Call) int {
			return cmp.Or(parked.Arrived.Compare(p.Arrived), -1)
		})
		q.parked, p.parked = slices.Insert(q.parked, i, p), true
		if !q.ticking {
			q.ticking = true
			time.AfterFunc(ScoutInterval, q.tick)
		}
	})
	return may
}

// Finish says that the nodes have answered the call, or that the call ends.
func (q *Queue) Finish(p *Call) {
	q.change(func() {
		if p.parked {
			i := slices.Index(q.parked, p)
			q.parked, p.parked = slices.Delete(q.parked, i, i+1), false
		}
		q.uncount(p)
	})
}

// StateChanged wakes as many calls as there is room for, if a quorum can grant.
func (q *Queue) StateChanged() { q.change(func() {}) }

// nextRound wakes further calls, because the calls that are awake hang.
func (q *Queue) nextRound() { q.change(func() { clear(q.awake) }) }

// change makes a change under mu, and then wakes as many calls as there is room for.
func (q *Queue) change(by func()) {
	q.mu.Lock()
	by()
	woken := q.next()
	q.mu.Unlock()
	for _, p := range woken {
		p.Wake()
	}
}

// next returns the calls to wake, if a quorum can grant. mu is held.
func (q *Queue) next() (woken []*Call) {
	if len(q.parked) == 0 || !q.canGrant() {
		return nil
	}
	woken = q.take(min(len(q.parked), MaxAwake-len(q.awake)))
	for _, p := range woken {
		p.woken, q.awake[p] = true, true
	}
	if q.lacking = 0; len(woken) > 0 {
		q.roundEnd.Reset(MaxAwakeTime)
	}
	return woken
}

// uncount makes room for another call, if this one counts as awake. mu is held.
func (q *Queue) uncount(p *Call) {
	delete(q.awake, p)
	p.woken, p.scouts = false, false
}

// take takes the calls out that arrived first, so many of them. mu is held.
func (q *Queue) take(n int) []*Call {
	first := slices.Clone(q.parked[:n])
	clear(q.parked[:n])
	q.parked = q.parked[n:]
	for _, p := range first {
		p.parked = false
	}
	return first
}

// Wait returns for how long a call waits that has found no quorum, if no state of a node changes.
func (q *Queue) Wait() time.Duration {
	if q.connected() {
		return ScoutInterval
	}
	return math.MaxInt64
}

// tick runs each ScoutInterval as long as calls are parked. If no quorum can grant, it logs the
// reminder that is due, and wakes the oldest call if the nodes are connected.
func (q *Queue) tick() {
	q.mu.Lock()
	canGrant, scouts, waiting := q.canGrant(), q.connected(), len(q.parked)
	if q.ticking = waiting > 0; q.ticking {
		time.AfterFunc(ScoutInterval, q.tick)
	}
	if canGrant || waiting == 0 {
		q.lacking = 0
		q.mu.Unlock()
		return
	}
	q.lacking++
	due, oldest := q.lacking%reminderInterval == 0, q.parked[0]
	if scouts {
		q.take(1)
		oldest.scouts = true
	}
	q.mu.Unlock()
	if due {
		q.logger.Warn("lockpipe: no quorum of the nodes can grant, and calls wait",
			slog.Int("calls", waiting),
			slog.Duration("longest", time.Since(oldest.Arrived).Round(time.Second)))
	}
	if scouts {
		oldest.Wake()
	}
}
