package calls

import (
	"time"

	"github.com/lockpipe/lockpipe/internal/locker"
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

// blockedKey returns the key that the call can't get, as far as it knows: another process holds it,
// or its group had no quorum, and other keys are in other groups. Empty: none is known.
func (s *waitingCall) blockedKey() string {
	if key := s.policy.BlockedKey(); key != "" {
		return key
	}
	return s.reason.KeyWithoutQuorum()
}

// contend has the call, which runs, contend for the key that it can't get, so that other calls may
// have its other keys. If no such key is known, the call keeps all of its keys.
func (s *waitingCall) contend() {
	key := s.blockedKey()
	if s.contending || key == "" {
		return
	}
	s.runs, s.contending = false, true
	s.calls.locker.Queue.Contend(s.turn, key, s.stuck)
	s.calls.locker.LeaveLines(s.keys...) // for its other keys
}

// retryTurn ends the contention of the call, and reports whether it is its turn. If not, the call
// waits in the queue, for keys that other calls of the process have, or its turn is being begun.
func (s *waitingCall) retryTurn() bool {
	s.contending, s.runs = false, s.TakeTurn()
	return s.runs
}

// TakeTurn implements locker.NextCall, for any goroutine. If the call waits for other calls of this
// process then, it leaves the line in which it is.
func (s *waitingCall) TakeTurn() bool {
	runs := s.calls.locker.Queue.Retry(s.turn)
	if !runs {
		s.calls.locker.LeaveLines(s.keys...)
	}
	return runs
}

// Run implements keyqueue.Caller.
func (s *waitingCall) Run() { s.Begin(nil) }

// Begin implements locker.NextCall. The turn begins once, and the call takes it before another one
// can begin.
func (s *waitingCall) Begin(h *locker.Handoff) {
	s.handed = h
	s.begun.Store(true)
	s.wakeUp()
}

// Released implements keyqueue.Caller.
func (s *waitingCall) Released() {
	s.released.Store(true)
	s.wakeUp()
}

// begin begins the turn of the call. It returns the lease that was handed to the call, if the call
// keeps it.
func (s *waitingCall) begin() *locker.Lease {
	s.runs, s.contending = true, false
	s.released.Store(false)
	s.beginPolicy()
	if s.handed == nil {
		return nil
	}
	return s.calls.locker.Accept(s.ctx, s.handed, &s.opts)
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
