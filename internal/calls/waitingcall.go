package calls

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/line"
	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/outage"
	"github.com/lockpipe/lockpipe/internal/wait"
)

// waitingCall is one call that waits until its keys are granted. The queue of the process says when
// it is its turn. Then it is handed the lease of the call before it, or it asks the nodes. If
// another process holds one of the keys, it stands in the line for that key, by its policy.
type waitingCall struct {
	calls *Calls
	ctx   context.Context
	keys  []string
	opts  locker.Options
	turn  *keyqueue.Call // in the queue; the lease keeps it when the call has ended

	// What other goroutines tell the call.
	wake chan struct{} // of capacity 1: there may be something to do
	news atomic.Uint32 // keyqueue.News that the call has not taken

	// Of the call's goroutine. The call runs, or contends, or waits in the queue for its turn.
	runs       bool   // it is its turn
	contending bool   // for a key that another process holds
	behind     bool   // other calls of the process were before it
	own        string // the token of the last attempt
	policy     wait.Policy
	reserving  time.Time         // when its reservations end; zero: there are none
	renewal    time.Time         // when to renew its places in lines until then
	unused     int               // how often reservations ended before its turn
	side       int               // of the key that another process holds: see parts.Mux.Side
	had, met   map[string]string // of several keys: who had each last, and when it was refused
	stuck      bool              // who had the key has refused the call before
	reason     *locker.Failure   // of the last attempt; nil before the first
	parked     outage.Call       // during an outage
	outage     *outage.Queue     // of parked: that of a group that lacks a quorum; nil: none yet
}

// newWaitingCall returns a call that is ready to enter the queue.
func newWaitingCall(ctx context.Context, c *Calls, keys []string, o *locker.Options) *waitingCall {
	s := &waitingCall{calls: c, ctx: ctx, keys: keys, opts: *o, wake: make(chan struct{}, 1)}
	s.turn = &keyqueue.Call{Caller: s}
	s.opts.Turn = s.turn
	s.policy.Key, s.policy.MaxDelay, s.policy.Arbiter = keys[0], o.MaxDelay, s.arbiter
	s.parked.Arrived, s.parked.Wake = o.Start, s.wakeUp
	if len(keys) > 1 {
		s.had, s.met = map[string]string{}, map[string]string{}
	}
	return s
}

// wakeUp has the call take its next steps. It does not block.
func (s *waitingCall) wakeUp() { wakeUp(s.wake) }

// arbiter is wait.Policy.Arbiter. It chooses a node on the side where the call was refused.
func (s *waitingCall) arbiter(key string, skip int) *line.Node {
	return s.calls.locker.Mux.Arbiter(key, s.side, skip)
}

// enter puts the call into the queue, or reports that too many calls wait.
func (s *waitingCall) enter() bool {
	runs, ok := s.calls.locker.Queue.Enter(s.turn, s.keys, locker.MaxPending)
	s.runs, s.behind = runs, !runs
	return ok
}

// wait takes the steps of the call, which has entered the queue, until it ends.
func (s *waitingCall) wait() (l *locker.Lease, f *locker.Failure) {
	timer := time.NewTimer(line.Forever)
	defer timer.Stop()
	for l == nil && f == nil {
		var delay time.Duration
		if l, delay, f = s.advance(); delay > 0 {
			timer.Reset(min(delay, s.keepReserved()))
			s.sleep(timer.C)
		}
	}
	s.leave(l)
	return l, f
}

// sleep waits until something wakes the call.
func (s *waitingCall) sleep(over <-chan time.Time) {
	select {
	case <-s.wake:
	case <-over:
	case <-s.ctx.Done():
	case <-s.calls.locker.Open.Done():
	}
}

// leave ends the call. If l was granted, l has its keys. Otherwise others may have them.
func (s *waitingCall) leave(l *locker.Lease) {
	s.finishOutage()
	if l == nil {
		s.calls.locker.Queue.Leave(s.turn, time.Now())
		s.calls.locker.LeaveLines(s.keys...)
	}
}

// advance takes the next step. It returns the lease, or the failure that ends the call, or the
// delay until the step after that. It is called again after each wake, when the delay is over, and
// when ctx or the client ends. After a lease or a failure leave follows.
func (s *waitingCall) advance() (l *locker.Lease, delay time.Duration, f *locker.Failure) {
	news := keyqueue.News(s.news.Swap(0))
	if news&keyqueue.Reserving != 0 {
		s.reserve()
	}
	if news&keyqueue.Turn != 0 {
		if l = s.begin(); l != nil {
			return l, 0, nil
		}
	}
	if end := s.calls.locker.EndReason(s.ctx); end != nil {
		return nil, 0, s.end(end)
	}
	if !s.runs && !s.contending {
		return nil, line.Forever, nil
	}
	if news&(keyqueue.Released|keyqueue.Turn) == keyqueue.Released {
		if s.contending && !s.retryTurn() { // it waits for other calls of the process
			return nil, line.Forever, nil
		}
		s.policy.Begin(false, false)
	}
	todo := s.decide()
	switch {
	case todo.Kind == wait.Wait, !s.mayAttempt():
		s.contend()
		return nil, cmp.Or(todo.Delay, line.Forever), nil
	case s.contending && !s.retryTurn():
		return nil, line.Forever, nil
	}
	l, f = s.attempt()
	return l, 0, f
}

// end ends a call whose ctx or client has ended. If its turn is being begun, end waits for that,
// and returns nil.
func (s *waitingCall) end(end error) *locker.Failure {
	queue, until := &s.calls.locker.Queue, time.Time{}
	if !s.runs && !s.contending {
		until = queue.HeldUntil(s.turn)
	}
	if !s.runs && !queue.GiveUp(s.turn) {
		<-s.wake
		return nil
	}
	s.behind = s.behind || !s.runs && !s.contending
	return s.abort(end, until)
}

// abort returns the failure of a call that ctx or Close ended with end, while other calls of the
// process held its keys until then.
func (s *waitingCall) abort(end error, until time.Time) *locker.Failure {
	f, holder := s.reason, s.holder()
	switch {
	case f != nil:
	case s.behind:
		f = locker.Held([]string{s.keys[0]}, nil) // keys may be the caller's slice
	case holder.Known:
		f = locker.Held([]string{s.policy.Blocked}, []string{holder.Node})
	default: // it made no attempt, and nobody is known to hold the keys
		return &locker.Failure{End: end}
	}
	if f.IsHeld() {
		f.Ahead = holder.Ahead
		if slices.Contains(f.Votes.Keys, s.policy.Blocked) {
			f.Owner = ids.OwnerOf(holder.Token)
		}
		if left := holder.Left(); holder.Known && left != line.Forever {
			f.RetryAfter = left
		}
		if left := time.Until(until); left > 0 {
			f.Owner, f.RetryAfter = s.calls.locker.Owner(), left
		}
	}
	return f.EndedBy(end).AfterWaiting(s.keys, s.opts.Start)
}

// holder returns what is known of the one who has the key that the call can't get. It is zero if
// nobody is known to have it, or to be before the call in its line.
func (s *waitingCall) holder() line.Place {
	p, _ := s.calls.locker.Lines.State(s.policy.Blocked, s.policy.Node)
	if !p.Known || p.First() && p.Free {
		return line.Place{}
	}
	return p
}

// decide returns what the policy wants, and asks about the line as it wants.
func (s *waitingCall) decide() wait.Action {
	todo := s.policy.Next(s.facts())
	for todo.Kind == wait.AskLine {
		s.calls.locker.Lines.Ask(todo.Key, todo.Node, s.wakeUp)
		todo = s.policy.Next(s.facts())
	}
	return todo
}

// facts returns what is known now.
func (s *waitingCall) facts() wait.Facts {
	f := wait.Facts{Now: time.Now(), Own: s.own}
	if lines := s.calls.locker.Lines; lines.Any() {
		f.Contended = lines.Contended(s.keys, f.Now)
		key := s.policy.Blocked
		f.Place, f.Asking = lines.State(key, s.policy.Node)
		if s.had != nil && f.Place.Known && !f.Place.Free {
			s.had[key] = f.Place.Token
		}
	}
	return f
}

// mayAttempt reports whether enough nodes can be reached for the next attempt: see
// outage.Queue.Admit. A call stays in the queue that woke it, unless another group lacks a quorum.
func (s *waitingCall) mayAttempt() bool {
	if !s.reason.IsNoQuorum() {
		return true
	}
	if q, lacks := s.calls.locker.Outage(s.keys); s.outage == nil || lacks && s.outage != q {
		s.finishOutage()
		s.outage = q
	}
	return s.outage.Admit(&s.parked)
}

// finishOutage says that the nodes have answered the call, or that it ends.
func (s *waitingCall) finishOutage() {
	if s.outage != nil {
		s.outage.Finish(&s.parked)
	}
}

// attempt makes the attempt that the policy wants. It returns the lease, or the failure that ends
// the call, or neither if the call continues.
func (s *waitingCall) attempt() (*locker.Lease, *locker.Failure) {
	l, f := s.calls.locker.Try(s.ctx, s.keys, &s.opts)
	switch {
	case f == nil:
		return l, nil
	case f.CutShort(s.ctx): // it says nothing new about the keys
		if s.reason == nil {
			s.reason = f
		}
	case !f.Retryable():
		return nil, f
	default:
		s.recordFailure(f)
	}
	return nil, nil
}

// recordFailure records why an attempt failed.
func (s *waitingCall) recordFailure(f *locker.Failure) {
	if !f.IsNoQuorum() { // without a quorum the next call would hardly find one
		s.finishOutage()
	}
	s.own, s.reason, s.opts.Refused, s.stuck = f.Token, f, true, true
	key := ""
	if f.IsHeld() && len(f.Votes.Keys) > 0 {
		key = f.Votes.Keys[0]
		s.side = s.calls.locker.Mux.Side(key, f.Votes.Nodes, s.side)
		before, met := s.met[key]
		if s.stuck = met && before == s.had[key]; s.met != nil {
			s.met[key] = s.had[key]
		}
	}
	s.policy.Failed(time.Now(), key, s.opts.RetryDelay())
}
