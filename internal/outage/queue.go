// Package outage holds waiting calls back while no quorum of the nodes can be reached.
//
// Two kinds of calls are not held back, and try after their delays: those of AcquireAny over
// several groups, and those of a fleet that moves, while other keys of the Mux have a quorum.
package outage

import (
	"container/heap"
	"log/slog"
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
	// reminderInterval is the time between two reminders in the log that calls wait for a quorum.
	reminderInterval = time.Minute
)

// Queue has the waiting calls that are parked while no quorum of the nodes can be reached. It wakes
// them when the nodes are back.
//
// A call asks Admit before each attempt that follows one without a quorum. If too few nodes can be
// reached, the call is parked: it does nothing until the Queue wakes it. The calls are woken in
// the order of arrival, at most MaxAwake at once. A call that is granted or refused makes room for
// the next one. A call that finds no quorum does not, or all calls would try before the Mux notices
// that the nodes are down again. If no call makes room within MaxAwakeTime, a new round begins: the
// next calls are woken as if those before them did not exist.
//
// While calls are parked and no quorum can be reached, the log has a reminder each
// reminderInterval.
//
// No wake-up is lost: Admit looks at the nodes once more after it has parked the call, and the Mux
// calls WakeNext after each change of a node's state that leaves a quorum reachable.
//
// Rejected: a goroutine that checks the nodes now and then (it costs time and comes late), and one
// broadcast to all calls (a returning node would get thousands of attempts in one moment).
//
// All methods are safe for concurrent use.
type Queue struct {
	reachable func() bool // reports whether a quorum can be reached; it does not block
	logger    *slog.Logger

	mu            sync.Mutex  // guards all below, and the same in the calls; a leaf
	parked        parkedCalls // a heap in the order of arrival
	parkings      uint64      // how many calls were parked so far
	awake         int         // calls that were woken in this round and have not finished
	round         uint64
	roundTimer    *time.Timer // ends the round; nil before the first use
	roundTimerSet bool        // it runs: calls are parked only for lack of room

	// When the next reminder is due; zero if none was due since a quorum could be reached.
	reminderDue time.Time
	reminder    *time.Timer // nil before the first use
	reminderSet bool        // the reminder runs, or has just fired
}

// New returns a Queue without calls. reachable reports whether a quorum can be reached; it must not
// block. The owner calls WakeNext when a quorum can be reached again.
func New(reachable func() bool, logger *slog.Logger) *Queue {
	return &Queue{reachable: reachable, logger: logger}
}

// Call is a waiting call as the Queue sees it. Its owner sets Arrived and Wake before the first
// Admit, and calls Admit and Finish one after another.
type Call struct {
	Arrived time.Time
	Wake    func() // it does not block
	joined  bool   // owned by the call: it was parked, and has not finished since

	// Guarded by the Queue's mu:
	number    uint64 // the order of calls that arrived at the same time; 0 before the first parking
	heapIndex int    // in the heap, from 1; 0 when it is not parked
	woken     bool   // it counts as awake, if round is the present one
	round     uint64 // in which it was woken
}

// Admit reports whether the call may make an attempt now. If not, it parks the call, and calls Wake
// when the call must ask again.
func (q *Queue) Admit(p *Call) bool {
	reachable := q.reachable()
	q.mu.Lock()
	switch {
	case p.heapIndex > 0:
		q.mu.Unlock()
		return false
	case reachable && (p.woken || len(q.parked) == 0):
		q.mu.Unlock()
		return true
	}
	q.uncount(p)
	if p.number == 0 {
		q.parkings++
		p.number = q.parkings
	}
	p.joined = true
	heap.Push(&q.parked, p)
	q.setReminder()
	q.mu.Unlock()
	q.wakeIfReachable() // the nodes may have come back before the call was parked
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
	if p.heapIndex > 0 {
		heap.Remove(&q.parked, p.heapIndex-1)
	}
	q.uncount(p)
	if len(q.parked) == 0 && q.roundTimerSet {
		q.roundTimerSet = false
		q.roundTimer.Stop()
	}
	q.setReminder()
	q.mu.Unlock()
	q.wakeIfReachable()
}

// uncount makes room for another call, if this one counts as awake. mu is held.
func (q *Queue) uncount(p *Call) {
	if p.woken && p.round == q.round {
		q.awake--
	}
	p.woken = false
}

// wakeIfReachable wakes the next calls, if a quorum can be reached.
func (q *Queue) wakeIfReachable() {
	if q.reachable() {
		q.WakeNext()
	}
}

// WakeNext wakes as many calls as there is room for. It is called when a quorum can be reached.
func (q *Queue) WakeNext() {
	var few [4]func() // keeps the usual case off the heap
	for _, wake := range q.takeNext(few[:0]) {
		wake()
	}
}

// takeNext takes the calls that WakeNext wakes, and appends their Wake to wakes.
func (q *Queue) takeNext(wakes []func()) []func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.parked) > 0 && q.awake < MaxAwake {
		p := heap.Pop(&q.parked).(*Call)
		p.woken, p.round = true, q.round
		q.awake++
		wakes = append(wakes, p.Wake)
	}
	q.reminderDue = time.Time{}
	q.setReminder()
	if len(q.parked) > 0 && (len(wakes) > 0 || !q.roundTimerSet) {
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
	q.wakeIfReachable()
}

// setReminder lets the reminder run while calls are parked, and at no other time. mu is held.
func (q *Queue) setReminder() {
	if q.reminderSet == (len(q.parked) > 0) {
		return
	}
	if q.reminderSet = !q.reminderSet; !q.reminderSet {
		q.reminder.Stop()
		return
	}
	if now := time.Now(); !q.reminderDue.After(now) {
		q.reminderDue = now.Add(reminderInterval)
	}
	if q.reminder == nil {
		q.reminder = time.AfterFunc(time.Until(q.reminderDue), q.writeReminder)
	} else {
		q.reminder.Reset(time.Until(q.reminderDue))
	}
}

// writeReminder logs the reminder, if one is due.
func (q *Queue) writeReminder() {
	reachable, now := q.reachable(), time.Now()
	q.mu.Lock()
	if !q.reminderSet {
		q.mu.Unlock()
		return
	}
	due := !reachable && !q.reminderDue.IsZero() && !now.Before(q.reminderDue)
	if reachable || due {
		q.reminderDue = time.Time{}
	}
	waiting, longest := len(q.parked), now.Sub(q.parked[0].Arrived)
	q.reminderSet = false
	q.setReminder()
	q.mu.Unlock()
	if due {
		q.logger.Warn("lockpipe: no quorum of the nodes can be reached, and calls wait",
			slog.Int("calls", waiting), slog.Duration("longest", longest.Round(time.Second)))
	}
}

// parkedCalls is a container/heap of calls by their arrival. Each call knows its index, so that it
// can leave at any time.
type parkedCalls []*Call

func (s parkedCalls) Len() int { return len(s) }

func (s parkedCalls) Less(i, j int) bool {
	if a, b := s[i].Arrived, s[j].Arrived; !a.Equal(b) {
		return a.Before(b)
	}
	return s[i].number < s[j].number
}

func (s parkedCalls) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].heapIndex, s[j].heapIndex = i+1, j+1
}

// Push adds a *Call.
func (s *parkedCalls) Push(x any) {
	p := x.(*Call)
	*s = append(*s, p)
	p.heapIndex = len(*s)
}

// Pop returns the *Call that heap has put at the end. An empty heap keeps no memory.
func (s *parkedCalls) Pop() any {
	last := len(*s) - 1
	p := (*s)[last]
	p.heapIndex = 0
	(*s)[last] = nil
	if *s = (*s)[:last]; last == 0 {
		*s = nil
	}
	return p
}
