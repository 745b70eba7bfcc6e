package lockpipe

import (
	"errors"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/waiting"
)

// The turn of a waiting call begins on the goroutine that released its keys. That starts the
// attempt at once, so that the nodes get it in the same flush as the release, and execute it after
// that. Then the call is woken. waitingCall.actor says who may use the call's state meanwhile.
const (
	// inQueue: the call waits in the queue. Its own goroutine may only give up. If the queue lets
	// the call run, the goroutine that is notified begins the turn, and sets itself.
	inQueue int32 = iota
	// itself: the call's own goroutine, or the worker of the pending calls.
	itself
	// asleep: the call contends for a key and sleeps. Its own goroutine takes it when it is woken.
	// One that releases the key may take it too, and puts it back into the queue.
	asleep
)

const (
	// Keys go from call to call of this process for passTime. Then the process yields: the next
	// call asks for them only after yieldDelay, which is about the time that other processes need
	// to notice the release and to acquire the lease. If no other process took the keys, the time
	// until the next such delay doubles, at most maxPassDoublings times.
	passTime         = 50 * time.Millisecond
	maxPassDoublings = 2
	yieldDelay       = 1500 * time.Microsecond
	// minReservation is the time of a call's first reservation: about the time of one turn. It
	// doubles with each one that ends before the call's turn, up to maxReservation. So a call gets
	// its turn behind holders that hold for longer. A holder that asks for a further key waits for
	// at most maxReservation because of a call that waits for the holder.
	minReservation = 10 * time.Millisecond
	maxReservation = time.Second
)

// awake reports whether it is the call's own turn to act.
func (s *waitingCall) awake() bool {
	return s.actor.Load() == itself || s.actor.CompareAndSwap(asleep, itself)
}

// blockedKey returns the key that the call can't get, as far as it knows: another process holds it,
// or its group had no quorum, and other keys are in other groups. Empty: none is known.
func (s *waitingCall) blockedKey() string {
	var without *QuorumError
	key := s.policy.BlockedKey()
	if key == "" && errors.As(s.reason, &without) && len(without.keys) > 0 {
		key = without.keys[0]
	}
	return key
}

// sleep ends the steps of the call until something wakes it. It contends for the key that it can't
// get, so that other calls may have its other keys. If no such key is known, it keeps all of its
// keys. sleep returns false if there is something to do at once.
func (s *waitingCall) sleep() bool {
	if !s.contending {
		key := s.blockedKey()
		if key == "" {
			return true
		}
		s.contending = true
		s.client.queue.Contend(s.turn, key)
	}
	s.actor.Store(asleep)
	return !s.released.Load() || !s.actor.CompareAndSwap(asleep, itself)
}

// retryTurn ends the contention of the call, and reports whether it is its turn. If not, the call
// waits in the queue, for keys that other calls of the process have.
func (s *waitingCall) retryTurn() bool {
	s.actor.Store(inQueue)
	if !s.client.queue.Retry(s.turn) {
		return false
	}
	s.contending = false
	s.actor.Store(itself)
	return true
}

// Run implements keyqueue.Caller.
func (s *waitingCall) Run() { s.begin(nil) }

// begin begins the turn of the call, which is in the queue, with the lease that it is handed, if
// there is one.
func (s *waitingCall) begin(h *handoff) {
	c := s.client
	s.contending = false
	s.released.Store(false)
	s.beginPolicy()
	if h != nil && !s.accept(h) {
		c.discardHandoff(h)
	}
	// If the last attempt found no quorum, the call's own goroutine sees to the outage first.
	if s.granted == nil && s.pending.attempt == nil && c.endReason(s.ctx) == nil &&
		!errors.Is(s.reason, ErrNoQuorum) {
		if todo := s.decide(); todo.Kind != waiting.Wait {
			s.startAttempt(todo)
		}
	}
	s.actor.Store(itself)
	s.wake()
}

// beginPolicy tells the policy that a turn begins. If the keys came from another call of this
// process, the call asks at once. If they have gone from call to call for long, other processes
// have their chance first.
func (s *waitingCall) beginPolicy() {
	now, queue := time.Now(), &s.client.queue
	switch p := queue.Passing(s.turn); {
	case p.Since.IsZero():
		s.policy.Begin(now)
	case mustYield(p, now):
		queue.Yield(s.turn, now)
		s.policy.Begin(now.Add(yieldDelay))
	default:
		s.policy.Continue()
	}
}

// mustYield reports whether it is time to give other processes a chance to take keys that go from
// call to call of this process.
func mustYield(p keyqueue.Passing, now time.Time) bool {
	return !p.Since.IsZero() && now.Sub(p.Since) >= passTime<<min(p.Yields, maxPassDoublings)
}

// Released implements keyqueue.Caller.
func (s *waitingCall) Released() {
	if s.takeTurn() != nil {
		s.begin(nil)
		return
	}
	s.released.Store(true)
	s.wake()
}

// takeTurn ends the contention of the call for another goroutine. It returns the call if its turn
// has come: begin must follow. It returns nil if the call does not sleep, or waits in the queue for
// other keys now.
func (s *waitingCall) takeTurn() *waitingCall {
	if s.actor.CompareAndSwap(asleep, inQueue) && s.client.queue.Retry(s.turn) {
		return s
	}
	return nil
}

// Reserving implements keyqueue.Caller. It bounds the time of the reservation. One that begins
// while the time of another runs ends with that.
func (s *waitingCall) Reserving() {
	if !s.reserving.CompareAndSwap(false, true) {
		return
	}
	d := min(minReservation<<min(s.reservations.Load(), 10), maxReservation)
	time.AfterFunc(d, func() {
		s.reserving.Store(false)
		if s.client.queue.Unreserve(s.turn) {
			s.reservations.Add(1)
		}
	})
}
