// Package outage holds waiting calls back while no quorum of the nodes can grant.
//
// Two kinds of calls are not held back, and try after their delays: those of AcquireAny over
// several groups, and those of a fleet that moves, while other keys of the Mux have a quorum.
package outage

import (
	"container/list"
	"log/slog"
	"math"
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
	// reminderInterval is the time between two reminders in the log that calls wait for a quorum.
	reminderInterval = time.Minute
)

// Queue has the waiting calls that are parked while no quorum of the nodes can grant. It wakes them
// when the nodes are back. While a quorum is connected, and some of it are failing, it wakes the
// oldest call each ScoutInterval.
//
// A call asks Admit before each attempt that follows one without a quorum. If too few nodes can
// grant, the call is parked: it does nothing until the Queue wakes it. The calls are woken in
// the order of arrival, at most MaxAwake at once. A call that is granted or refused makes room for
// the next one. A call that finds no quorum does not, or all calls would try before the Mux notices
// that the nodes are down again. If no call makes room within MaxAwakeTime, a new round begins: the
// next calls are woken as if those before them did not exist.
//
// While calls are parked and no quorum can grant, the log has a reminder each reminderInterval.
//
// No wake-up is lost: Admit looks at the nodes once more after it has parked the call, and the Mux
// calls StateChanged after each change of a node's state that leaves a quorum connected.
//
// Rejected: a goroutine that checks the nodes now and then (it costs time and comes late), and one
// broadcast to all calls (a returning node would get thousands of attempts in one moment).
//
// All methods are safe for concurrent use.
type Queue struct {
	// They report whether a quorum can grant, and whether it is connected. They do not block.
	canGrant, connected func() bool
	logger              *slog.Logger

	mu            sync.Mutex // guards all below, and the same in the calls; a leaf
	parked        list.List  // of *Call, in the order of arrival
	awake         int        // calls that were woken in this round and have not finished
	round         uint64
	roundTimer    *time.Timer // ends the round; nil before the first use
	roundTimerSet bool        // it runs: calls are parked only for lack of room

	// When the next reminder is due; zero if none was due since a quorum could grant.
	reminderDue time.Time
	ticker      *time.Timer // runs tick; nil before the first use
	ticking     bool        // the ticker runs, or has just fired
}

// New returns a Queue without calls. canGrant reports whether a quorum can grant, and connected
// whether it can be reached. Both must not block. The owner calls StateChanged when a quorum may
// grant again.
func New(canGrant, connected func() bool, logger *slog.Logger) *Queue {
	return &Queue{canGrant: canGrant, connected: connected, logger: logger}
}

// Call is a waiting call as the Queue sees it. Its owner sets Arrived and Wake before the first
// Admit, and calls Admit and Finish one after another.
type Call struct {
	Arrived time.Time
	Wake    func() // it does not block
	joined  bool   // owned by the call: it was parked, and has not finished since

	// Guarded by the Queue's mu:
	place  *list.Element // nil when it is not parked
	woken  bool          // it counts as awake, if round is the present one
	round  uint64        // in which it was woken
	scouts bool          // it was woken to try, although no quorum can grant
}

// Admit reports whether the call may make an attempt now. If not, it parks the call, and calls Wake
// when the call must ask again.
func (q *Queue) Admit(p *Call) bool {
	canGrant := q.canGrant()
	q.mu.Lock()
	switch {
	case p.place != nil:
		q.mu.Unlock()
		return false
	case p.scouts, canGrant && (p.woken || q.parked.Len() == 0):
		p.scouts = false
		q.mu.Unlock()
		return true
	}
	q.uncount(p)
	q.park(p)
	p.joined = true
	if !q.ticking {
		q.startTicker()
	}
	q.mu.Unlock()
	q.StateChanged() // the nodes may have come back before the call was parked
	return false
}

// Finish says that the nodes have answered the call, or that the call ends. For a call that was
// never parked it does nothing.
func (q *Queue) Finish(p *Call) {
	if !p.joined {
		return
	}
	p.joined = false
	q.mu.Lock()
	if p.place != nil {
		q.parked.Remove(p.place)
		p.place = nil
	}
	q.uncount(p)
	if q.parked.Len() == 0 && q.roundTimerSet {
		q.roundTimerSet = false
		q.roundTimer.Stop()
	}
	q.mu.Unlock()
	q.StateChanged()
}

// park puts a call into the order of arrival. A new call is one of the last, and a call that comes
// back is one of the first. mu is held.
func (q *Queue) park(p *Call) {
	later := func(e *list.Element) bool { return e.Value.(*Call).Arrived.After(p.Arrived) }
	if p.joined {
		for at := q.parked.Front(); at != nil; at = at.Next() {
			if later(at) {
				p.place = q.parked.InsertBefore(p, at)
				return
			}
		}
	}
	at := q.parked.Back()
	for at != nil && later(at) {
		at = at.Prev()
	}
	if at == nil {
		p.place = q.parked.PushFront(p)
	} else {
		p.place = q.parked.InsertAfter(p, at)
	}
}

// first takes the call out that arrived first. mu is held.
func (q *Queue) first() *Call {
	p := q.parked.Remove(q.parked.Front()).(*Call)
	p.place = nil
	return p
}

// uncount makes room for another call, if this one counts as awake. mu is held.
func (q *Queue) uncount(p *Call) {
	if p.woken && p.round == q.round {
		q.awake--
	}
	p.woken, p.scouts = false, false
}

// StateChanged wakes as many calls as there is room for, if a quorum can grant.
func (q *Queue) StateChanged() {
	q.mu.Lock()
	waiting := q.parked.Len()
	q.mu.Unlock()
	if waiting == 0 || !q.canGrant() {
		return
	}
	var few [4]func() // keeps the usual case off the heap
	for _, wake := range q.takeNext(few[:0]) {
		wake()
	}
}

// takeNext takes the calls that StateChanged wakes, and appends their Wake to wakes.
func (q *Queue) takeNext(wakes []func()) []func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.parked.Len() > 0 && q.awake < MaxAwake {
		p := q.first()
		p.woken, p.round = true, q.round
		q.awake++
		wakes = append(wakes, p.Wake)
	}
	q.reminderDue = time.Time{}
	if q.parked.Len() > 0 && (len(wakes) > 0 || !q.roundTimerSet) {
		q.roundTimerSet = true
		if q.roundTimer == nil {
			q.roundTimer = time.AfterFunc(MaxAwakeTime, q.nextRound)
		} else {
			q.roundTimer.Reset(MaxAwakeTime)
		}
	}
	return wakes
}

// nextRound wakes further calls, because the calls that are awake hang.
func (q *Queue) nextRound() {
	q.mu.Lock()
	q.round++
	q.awake, q.roundTimerSet = 0, false
	q.mu.Unlock()
	q.StateChanged()
}

// startTicker has tick run after ScoutInterval. mu is held.
func (q *Queue) startTicker() {
	q.ticking = true
	if q.ticker == nil {
		q.ticker = time.AfterFunc(ScoutInterval, q.tick)
	} else {
		q.ticker.Reset(ScoutInterval)
	}
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
	canGrant, connected, now := q.canGrant(), q.connected(), time.Now()
	q.mu.Lock()
	waiting := q.parked.Len()
	if q.ticking = waiting > 0; q.ticking {
		q.startTicker()
	}
	if canGrant || waiting == 0 {
		q.reminderDue = time.Time{}
		q.mu.Unlock()
		return
	}
	longest := now.Sub(q.parked.Front().Value.(*Call).Arrived)
	if q.reminderDue.IsZero() {
		q.reminderDue = now.Add(reminderInterval - ScoutInterval)
	}
	due := !now.Before(q.reminderDue)
	if due {
		q.reminderDue = now.Add(reminderInterval)
	}
	var scout *Call
	if connected {
		scout = q.first()
		scout.scouts = true
	}
	q.mu.Unlock()
	if due {
		q.logger.Warn("lockpipe: no quorum of the nodes can grant, and calls wait",
			slog.Int("calls", waiting), slog.Duration("longest", longest.Round(time.Second)))
	}
	if scout != nil {
		scout.Wake()
	}
}
