package lockpipe

import (
	"container/heap"
	"log/slog"
	"sync"
	"time"
)

const (
	// maxAwake is the most calls that an outage wakes at once: half of what one flush carries. So
	// the nodes answer all of them well within the usual NodeTimeout, and other calls have room.
	maxAwake = 256
	// maxAwakeTime is how long woken calls that get no answer keep the next ones from their
	// attempts: twice the usual NodeTimeout.
	maxAwakeTime = 100 * time.Millisecond
	// reminderInterval is the time between two reminders in the log that calls wait for a quorum.
	reminderInterval = time.Minute
)

// outage holds waiting calls back while no quorum of the nodes can be reached. It wakes them when
// the nodes are back.
//
// A call asks admit before each attempt that follows one without a quorum. If too few nodes can be
// reached, the call is parked: it does nothing until the outage wakes it. The calls are woken in
// the order of arrival, at most maxAwake at once. A call that is granted or refused makes room for
// the next one. A call that finds no quorum does not, or all calls would try before the Mux notices
// that the nodes are down again. If no call makes room within maxAwakeTime, a new round begins: the
// next calls are woken as if those before them did not exist.
//
// While calls are parked and no quorum can be reached, the log has a reminder each
// reminderInterval.
//
// No wake-up is lost: admit looks at the nodes once more after it has parked the call, and the Mux
// calls wakeNext after each change of a node's state that leaves a quorum reachable.
//
// Rejected: a goroutine that checks the nodes now and then (it costs time and comes late), and one
// broadcast to all calls (a returning node would get thousands of attempts in one moment).
type outage struct {
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

// parkedCall is a waiting call as the outage sees it. The owner sets arrived and wake once.
type parkedCall struct {
	arrived time.Time
	wake    func() // it does not block
	joined  bool   // owned by the call: it was parked, and has not finished since

	// Guarded by the outage's mu:
	number    uint64 // the order of calls that arrived at the same time; 0 before the first parking
	heapIndex int    // in the heap, from 1; 0 when it is not parked
	woken     bool   // it counts as awake, if round is the present one
	round     uint64 // in which it was woken
}

// admit reports whether the call may make an attempt now. If not, it parks the call, and calls wake
// when the call must ask again.
func (o *outage) admit(p *parkedCall) bool {
	reachable := o.reachable()
	o.mu.Lock()
	switch {
	case p.heapIndex > 0:
		o.mu.Unlock()
		return false
	case reachable && (p.woken || len(o.parked) == 0):
		o.mu.Unlock()
		return true
	}
	o.uncount(p)
	if p.number == 0 {
		o.parkings++
		p.number = o.parkings
	}
	p.joined = true
	heap.Push(&o.parked, p)
	o.setReminder()
	o.mu.Unlock()
	o.wakeIfReachable() // the nodes may have come back before the call was parked
	return false
}

// finish says that the nodes have answered the call, or that the call ends. For a call that was
// never parked it does nothing.
func (o *outage) finish(p *parkedCall) {
	if !p.joined {
		return
	}
	p.joined = false
	o.mu.Lock()
	if p.heapIndex > 0 {
		heap.Remove(&o.parked, p.heapIndex-1)
	}
	o.uncount(p)
	if len(o.parked) == 0 && o.roundTimerSet {
		o.roundTimerSet = false
		o.roundTimer.Stop()
	}
	o.setReminder()
	o.mu.Unlock()
	o.wakeIfReachable()
}

// uncount makes room for another call, if this one counts as awake. mu is held.
func (o *outage) uncount(p *parkedCall) {
	if p.woken && p.round == o.round {
		o.awake--
	}
	p.woken = false
}

// wakeIfReachable wakes the next calls, if a quorum can be reached.
func (o *outage) wakeIfReachable() {
	if o.reachable() {
		o.wakeNext()
	}
}

// wakeNext wakes as many calls as there is room for. It is called when a quorum can be reached.
func (o *outage) wakeNext() {
	var few [4]func() // keeps the usual case off the heap
	for _, wake := range o.takeNext(few[:0]) {
		wake()
	}
}

// takeNext takes the calls that wakeNext wakes, and appends their wake to wakes.
func (o *outage) takeNext(wakes []func()) []func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.parked) > 0 && o.awake < maxAwake {
		p := heap.Pop(&o.parked).(*parkedCall)
		p.woken, p.round = true, o.round
		o.awake++
		wakes = append(wakes, p.wake)
	}
	o.reminderDue = time.Time{}
	o.setReminder()
	if len(o.parked) > 0 && (len(wakes) > 0 || !o.roundTimerSet) {
		o.roundTimerSet = true
		if o.roundTimer == nil {
			o.roundTimer = time.AfterFunc(maxAwakeTime, o.nextRound)
		} else {
			o.roundTimer.Reset(maxAwakeTime)
		}
	}
	return wakes
}

// nextRound wakes further calls, because the calls that are awake hang.
func (o *outage) nextRound() {
	o.mu.Lock()
	o.round++
	o.awake, o.roundTimerSet = 0, false
	o.mu.Unlock()
	o.wakeIfReachable()
}

// setReminder lets the reminder run while calls are parked, and at no other time. mu is held.
func (o *outage) setReminder() {
	if o.reminderSet == (len(o.parked) > 0) {
		return
	}
	if o.reminderSet = !o.reminderSet; !o.reminderSet {
		o.reminder.Stop()
		return
	}
	if now := time.Now(); !o.reminderDue.After(now) {
		o.reminderDue = now.Add(reminderInterval)
	}
	if o.reminder == nil {
		o.reminder = time.AfterFunc(time.Until(o.reminderDue), o.writeReminder)
	} else {
		o.reminder.Reset(time.Until(o.reminderDue))
	}
}

// writeReminder logs the reminder, if one is due.
func (o *outage) writeReminder() {
	reachable, now := o.reachable(), time.Now()
	o.mu.Lock()
	if !o.reminderSet {
		o.mu.Unlock()
		return
	}
	due := !reachable && !o.reminderDue.IsZero() && !now.Before(o.reminderDue)
	if reachable || due {
		o.reminderDue = time.Time{}
	}
	waiting, longest := len(o.parked), now.Sub(o.parked[0].arrived)
	o.reminderSet = false
	o.setReminder()
	o.mu.Unlock()
	if due {
		o.logger.Warn("lockpipe: no quorum of the nodes can be reached, and calls wait",
			slog.Int("calls", waiting), slog.Duration("longest", longest.Round(time.Second)))
	}
}

// parkedCalls is a container/heap of calls by their arrival. Each call knows its index, so that it
// can leave at any time.
type parkedCalls []*parkedCall

func (s parkedCalls) Len() int { return len(s) }

func (s parkedCalls) Less(i, j int) bool {
	if a, b := s[i].arrived, s[j].arrived; !a.Equal(b) {
		return a.Before(b)
	}
	return s[i].number < s[j].number
}

func (s parkedCalls) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].heapIndex, s[j].heapIndex = i+1, j+1
}

// Push adds a *parkedCall.
func (s *parkedCalls) Push(x any) {
	p := x.(*parkedCall)
	*s = append(*s, p)
	p.heapIndex = len(*s)
}

// Pop returns the *parkedCall that heap has put at the end. An empty heap keeps no memory.
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
