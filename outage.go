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
// What lost: a goroutine that looks at the nodes now and then (it costs time and comes late), and
// one broadcast to all calls (a returning node would get thousands of attempts in one moment).
type outage struct {
	reachable func() bool // reports whether a quorum can be reached; it does not block
	logger    *slog.Logger

	mu      sync.Mutex  // guards all below, and the same in the calls; a leaf
	parked  parkedCalls // a heap in the order of arrival
	numbers uint64      // how many calls were parked so far
	awake   int         // calls that were woken in this round and have not finished
	round   uint64
	timer   *time.Timer // ends the round; nil before the first use
	timing  bool        // the timer runs: calls are parked only for lack of room

	// Of the next reminder; zero if none was due since a quorum could be reached.
	due       time.Time
	reminder  *time.Timer // nil before the first use
	reminding bool        // the reminder runs, or has just fired
}

// parkedCall is a waiting call as the outage sees it. The owner sets arrived and wake once.
type parkedCall struct {
	arrived time.Time
	wake    func() // it does not block
	joined  bool   // owned by the call: it was parked, and has not finished since

	// Guarded by the outage's mu:
	number uint64 // the order of calls that arrived at the same time; 0 before the first parking
	place  int    // in the heap, from 1; 0 when it is not parked
	woken  bool   // it counts as awake, if round is the present one
	round  uint64 // in which it was woken
}

// admit reports whether the call may make an attempt now. If not, the call is parked, and wake is
// called when it is to ask again.
func (o *outage) admit(p *parkedCall) bool {
	reachable := o.reachable()
	o.mu.Lock()
	switch {
	case p.place > 0:
		o.mu.Unlock()
		return false
	case reachable && (p.woken || len(o.parked) == 0):
		o.mu.Unlock()
		return true
	}
	o.free(p)
	if p.number == 0 {
		o.numbers++
		p.number = o.numbers
	}
	p.joined = true
	heap.Push(&o.parked, p)
	o.setReminder()
	o.mu.Unlock()
	o.look() // the nodes may have come back before the call was parked
	return false
}

// finish says that the nodes have answered the call, or that it ends. A call that was never parked
// has nothing to finish.
func (o *outage) finish(p *parkedCall) {
	if !p.joined {
		return
	}
	p.joined = false
	o.mu.Lock()
	if p.place > 0 {
		heap.Remove(&o.parked, p.place-1)
	}
	o.free(p)
	if len(o.parked) == 0 && o.timing {
		o.timing = false
		o.timer.Stop()
	}
	o.setReminder()
	o.mu.Unlock()
	o.look()
}

// free makes room for another call, if this one counts as awake. mu is held.
func (o *outage) free(p *parkedCall) {
	if p.woken && p.round == o.round {
		o.awake--
	}
	p.woken = false
}

// look wakes the next calls, if a quorum can be reached.
func (o *outage) look() {
	if o.reachable() {
		o.wakeNext()
	}
}

// wakeNext wakes as many calls as there is room for: a quorum can be reached.
func (o *outage) wakeNext() {
	var few [4]func() // keeps the usual case off the heap
	for _, wake := range o.next(few[:0]) {
		wake()
	}
}

// next takes the calls that wakeNext wakes, and appends their wake to wakes.
func (o *outage) next(wakes []func()) []func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.parked) > 0 && o.awake < maxAwake {
		p := heap.Pop(&o.parked).(*parkedCall)
		p.woken, p.round = true, o.round
		o.awake++
		wakes = append(wakes, p.wake)
	}
	o.due = time.Time{}
	o.setReminder()
	if len(o.parked) > 0 && (len(wakes) > 0 || !o.timing) {
		o.timing = true
		if o.timer == nil {
			o.timer = time.AfterFunc(maxAwakeTime, o.nextRound)
		} else {
			o.timer.Reset(maxAwakeTime)
		}
	}
	return wakes
}

// nextRound wakes further calls, because those that are awake hang.
func (o *outage) nextRound() {
	o.mu.Lock()
	o.round++
	o.awake, o.timing = 0, false
	o.mu.Unlock()
	o.look()
}

// setReminder lets the reminder run while calls are parked, and at no other time. mu is held.
func (o *outage) setReminder() {
	if o.reminding == (len(o.parked) > 0) {
		return
	}
	if o.reminding = !o.reminding; !o.reminding {
		o.reminder.Stop()
		return
	}
	if now := time.Now(); !o.due.After(now) {
		o.due = now.Add(reminderInterval)
	}
	if o.reminder == nil {
		o.reminder = time.AfterFunc(time.Until(o.due), o.remind)
	} else {
		o.reminder.Reset(time.Until(o.due))
	}
}

// remind writes the reminder, if one is due.
func (o *outage) remind() {
	reachable, now := o.reachable(), time.Now()
	o.mu.Lock()
	if !o.reminding {
		o.mu.Unlock()
		return
	}
	due := !reachable && !o.due.IsZero() && !now.Before(o.due)
	if reachable || due {
		o.due = time.Time{}
	}
	waiting, longest := len(o.parked), now.Sub(o.parked[0].arrived)
	o.reminding = false
	o.setReminder()
	o.mu.Unlock()
	if due {
		o.logger.Warn("lockpipe: no quorum of the nodes can be reached, and calls wait",
			slog.Int("calls", waiting), slog.Duration("longest", longest.Round(time.Second)))
	}
}

// parkedCalls is a container/heap of calls by their arrival. Each call knows its place, so that
// it can leave at any time.
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
	s[i].place, s[j].place = i+1, j+1
}

// Push adds a *parkedCall.
func (s *parkedCalls) Push(x any) {
	p := x.(*parkedCall)
	*s = append(*s, p)
	p.place = len(*s)
}

// Pop returns the *parkedCall that heap has put at the end. An empty heap keeps no memory.
func (s *parkedCalls) Pop() any {
	last := len(*s) - 1
	p := (*s)[last]
	p.place = 0
	(*s)[last] = nil
	if *s = (*s)[:last]; last == 0 {
		*s = nil
	}
	return p
}
