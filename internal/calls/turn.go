package calls

import (
	"time"

	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/wait"
)

// The turn of a waiting call begins on the goroutine that released its keys. That starts the
// attempt at once, so that the nodes get it in the same flush as the release, and execute it after
// that. Then the call is woken. waitingCall.actor says who may use the call's state meanwhile.
const (
	// inQueue: the call waits in the queue. Its own goroutine may only give up. If the queue lets
	// the call run, the goroutine that is notified begins the turn, and sets itself.
	inQueue int32 = iota
	// itself: the call's own goroutine.
	itself
	// asleep: the call contends for a key and sleeps. Its own goroutine takes it when it is woken.
	// One that releases the key may take it too, and puts it back into the queue.
	asleep
)

const (
	// minReservation is the time of a call's first reservation: about the time of one turn. It
	// doubles with each one that ends before the call's turn, up to maxReservation. So a call gets
	// its turn behind holders that hold for longer.
	minReservation = 10 * time.Millisecond
	maxReservation = time.Second
	// placeRenewal is how often places for reserved keys are renewed, within line.Node's grace.
	placeRenewal = 20 * time.Millisecond
)

// awake reports whether it is the call's own turn to act.
func (s *waitingCall) awake() bool {
	return s.actor.Load() == itself || s.actor.CompareAndSwap(asleep, itself)
}

// blockedKey returns the key that the call can't get, as far as it knows: another process holds it,
// or its group had no quorum, and other keys are in other groups. Empty: none is known.
func (s *waitingCall) blockedKey() string {
	if key := s.policy.BlockedKey(); key != "" {
		return key
	}
	return s.reason.KeyWithoutQuorum()
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
		s.calls.locker.Queue.Contend(s.turn, key, s.stuck)
		s.calls.locker.LeaveLines(s.keys...) // for its other keys
	}
	s.actor.Store(asleep)
	return !s.released.Load() || !s.actor.CompareAndSwap(asleep, itself)
}

// retryTurn ends the contention of the call, and reports whether it is its turn. If not, the call
// waits in the queue, for keys that other calls of the process have.
func (s *waitingCall) retryTurn() bool {
	s.actor.Store(inQueue)
	if !s.retry() {
		return false
	}
	s.contending = false
	s.actor.Store(itself)
	return true
}

// retry has the queue end the contention of the call, and reports whether the call runs. If not, it
// waits for other calls of this process, and leaves the line in which it is.
func (s *waitingCall) retry() (runs bool) {
	if runs = s.calls.locker.Queue.Retry(s.turn); !runs {
		s.calls.locker.LeaveLines(s.keys...)
	}
	return runs
}

// Run implements keyqueue.Caller.
func (s *waitingCall) Run() { s.Begin(nil) }

// Begin implements locker.NextCall. The call is in the queue.
func (s *waitingCall) Begin(h *locker.Handoff) {
	s.contending = false
	s.released.Store(false)
	s.beginPolicy()
	if h != nil {
		s.granted = s.calls.locker.Accept(s.ctx, h, s.turn, &s.opts)
	}
	// If the last attempt found no quorum, the call's own goroutine sees to the outage first.
	if s.granted == nil && s.calls.locker.EndReason(s.ctx) == nil && !s.reason.IsNoQuorum() {
		if todo := s.decide(); todo.Kind != wait.Wait {
			s.startAttempt()
		}
	}
	s.actor.Store(itself)
	s.wakeUp()
}

// beginPolicy tells the policy that a turn begins. If the keys came from another call of this
// process, the call asks at once. If they have gone from call to call for long, other processes
// have their chance first.
func (s *waitingCall) beginPolicy() {
	now, k := time.Now(), s.calls.locker
	switch since, _ := k.Queue.Passing(s.turn); {
	case since.IsZero():
		s.policy.Begin(false)
	case k.MustYield(s.turn, func() []string { return s.keys }, now):
		k.Queue.Yield(s.turn, now)
		s.policy.Begin(true)
	default:
		s.policy.Continue()
	}
}

// Released implements keyqueue.Caller.
func (s *waitingCall) Released() {
	if s.TakeTurn() {
		s.Begin(nil)
		return
	}
	s.released.Store(true)
	s.wakeUp()
}

// TakeTurn implements locker.NextCall, for another goroutine. It returns false if the call does not
// sleep, or waits in the queue for other keys now.
func (s *waitingCall) TakeTurn() bool {
	return s.actor.CompareAndSwap(asleep, inQueue) && s.retry()
}

// Reserving implements keyqueue.Caller. It bounds the time of the reservation. One that begins
// while the time of another runs ends with that.
func (s *waitingCall) Reserving() {
	if !s.reserving.CompareAndSwap(false, true) {
		return
	}
	d := min(minReservation<<min(s.reservations.Load(), 10), maxReservation)
	s.keepReserved(time.Now().Add(d))
}

// keepReserved keeps the places in the lines for the reserved keys, and ends the reservation then.
func (s *waitingCall) keepReserved(end time.Time) {
	k := s.calls.locker
	time.AfterFunc(min(placeRenewal, time.Until(end)), func() {
		if keys := k.Queue.Reserved(s.turn); len(keys) > 0 && time.Now().Before(end) {
			for _, key := range keys {
				k.Lines.Renew(key)
			}
			s.keepReserved(end)
			return
		}
		s.reserving.Store(false)
		if ended := k.Queue.Unreserve(s.turn); len(ended) > 0 {
			s.reservations.Add(1)
			s.calls.locker.LeaveLines(ended...)
		}
	})
}
