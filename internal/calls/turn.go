package calls

import (
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/line"
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
	key := s.policy.Blocked
	if key == "" && s.reason.IsNoQuorum() && len(s.reason.Votes.Keys) > 0 {
		key = s.reason.Votes.Keys[0]
	}
	return key
}

// contend has the call, which runs, contend for the key that it can't get, so that other calls may
// have its other keys. If no such key is known, the call keeps all of its keys.
func (s *waitingCall) contend() {
	key := s.blockedKey()
	if s.contending || key == "" {
		return
	}
	s.runs, s.contending, s.reserving = false, true, time.Time{}
	s.calls.locker.Queue.Contend(s.turn, key, s.stuck)
	s.calls.locker.LeaveLines(s.keys...) // for its other keys
}

// retryTurn ends the contention of the call, and reports whether it is its turn. If not, the call
// waits in the queue, for keys that other calls of the process have, or its turn is being begun.
func (s *waitingCall) retryTurn() bool {
	s.contending, s.runs = false, s.calls.locker.RetryTurn(s.turn, s.keys)
	return s.runs
}

// Notify implements keyqueue.Caller.
func (s *waitingCall) Notify(n keyqueue.News) {
	s.news.Or(uint32(n))
	s.wakeUp()
}

// begin begins the turn of the call. It returns the lease that was handed to the call, if the call
// keeps it.
func (s *waitingCall) begin() *locker.Lease {
	s.runs, s.contending = true, false
	since, _, yields := s.calls.locker.Queue.Passing(s.turn)
	s.policy.Begin(!since.IsZero(), yields)
	h, _ := s.turn.Handed.(*locker.Handoff)
	if s.turn.Handed = nil; h == nil {
		return nil
	}
	return s.calls.locker.Accept(s.ctx, h, &s.opts)
}

// reserve begins the time of a reservation. A further reservation that begins meanwhile ends with
// it.
func (s *waitingCall) reserve() {
	if now := time.Now(); s.reserving.IsZero() {
		s.reserving = now.Add(min(minReservation<<min(s.unused, 10), maxReservation))
		s.renewal = now.Add(placeRenewal)
	}
}

// keepReserved keeps the places in the lines for the keys that the call reserves, and ends the
// reservations when their time is over. It returns when it must be called again.
func (s *waitingCall) keepReserved() (next time.Duration) {
	if s.reserving.IsZero() {
		return line.Forever
	}
	k, now := s.calls.locker, time.Now()
	if left := s.reserving.Sub(now); left > 0 {
		if !now.Before(s.renewal) {
			s.renewal = now.Add(placeRenewal)
			for _, key := range k.Queue.Reserved(s.turn) {
				k.Lines.Renew(key)
			}
		}
		return min(left, s.renewal.Sub(now))
	}
	s.reserving = time.Time{}
	if ended := k.Queue.Unreserve(s.turn); len(ended) > 0 {
		s.unused++
		k.LeaveLines(ended...)
	}
	return line.Forever
}
