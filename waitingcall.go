package lockpipe

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/token"
	"github.com/lockpipe/lockpipe/internal/waiting"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// waitingCall is one call that waits until its keys are granted. The queue of the process says when
// it is its turn. Then it is handed the lease of the call before it, or it asks the nodes. If
// another process holds one of the keys, it contends for that key, by its policy.
type waitingCall struct {
	client *Client
	ctx    context.Context
	keys   []string
	opts   callOptions
	turn   *keyqueue.Call   // in the queue; the lease keeps it when the call has ended
	waker  *multiplex.Waker // nil: advance waits for the attempts
	wake   func()           // has advance called; it does not block

	actor        atomic.Int32 // who may use what is below: see turn.go
	released     atomic.Bool  // the process released the key for which the call contends
	reserving    atomic.Bool  // the time of a reservation runs
	reservations atomic.Int32 // how many ended before the call had its turn

	contending bool           // for a key that another process holds
	granted    *Lease         // that was handed to the call
	pending    pendingAttempt // under way
	policy     waiting.Policy
	watch      *multiplex.Watch
	watchedKey string     // the key of watch
	failed     bool       // an attempt failed, not only for its fence
	reason     error      // of the last attempt that was decided; nil before the first
	fenceRetry fenceRetry // attempts that failed for their fence alone
	parking    parking    // during an outage
}

// newWaitingCall returns a call that is ready to enter the queue. wake has its owner call advance.
// It must not block.
func newWaitingCall(ctx context.Context, c *Client, keys []string, o callOptions,
	wake func(),
) *waitingCall {
	s := &waitingCall{client: c, ctx: ctx, keys: keys, opts: o, wake: wake}
	s.turn = &keyqueue.Call{Caller: s}
	s.policy.MaxDelay, s.policy.Arbiter = o.maxDelay, c.arbiter
	s.parking.call.Arrived, s.parking.call.Wake = o.start, wake
	return s
}

// enter puts the call into the queue, or reports that too many calls wait.
func (s *waitingCall) enter() bool {
	runs, ok := s.client.queue.Enter(s.turn, s.keys, maxPending)
	if runs {
		s.actor.Store(itself)
	}
	return ok
}

// leave ends the call. If l was granted, l has its keys. Otherwise others may have them.
func (s *waitingCall) leave(l *Lease) {
	s.parking.finish()
	if s.watch != nil {
		s.watch.Close()
	}
	if l == nil {
		s.client.queue.Leave(s.turn, time.Now())
	}
}

// advance implements pendingCall.
func (s *waitingCall) advance(ctx context.Context) (l *Lease, delay time.Duration, err error) {
	if !s.awake() {
		return nil, noTimer, s.giveUp(ctx)
	}
	for {
		if s.pending.attempt == nil {
			if s.granted != nil {
				return s.granted, 0, nil
			}
			if end := s.client.endReason(ctx); end != nil {
				return nil, 0, s.abortError(end, time.Time{})
			}
			if delay = s.next(); delay > 0 {
				return nil, delay, nil
			}
		}
		outcome, decided := s.pending.outcome(ctx, s.waker)
		if !decided {
			return nil, noTimer, nil
		}
		t := s.pending
		s.pending = pendingAttempt{}
		l, err = s.attemptDone(ctx, t, attemptError(outcome))
		if l != nil || err != nil {
			return l, 0, s.opts.finalError(s.keys, err)
		}
	}
}

// giveUp ends a call that waits in the queue, if ctx or the client has ended. It returns nil if the
// call continues: if its turn begins now, it is woken.
func (s *waitingCall) giveUp(ctx context.Context) error {
	end := s.client.endReason(ctx)
	if end == nil {
		return nil
	}
	until := s.client.queue.HeldUntil(s.turn)
	if !s.client.queue.GiveUp(s.turn) {
		return nil
	}
	return s.abortError(end, until)
}

// abortError returns the error of a call that ctx or Close ended with end, while other calls of the
// process held its keys until then.
func (s *waitingCall) abortError(end error, until time.Time) error {
	reason := s.reason
	if reason == nil { // the calls before it in the queue had the keys all the time
		reason = &HeldError{Keys: []string{s.keys[0]}} // keys may be the caller's slice
	}
	var held *HeldError
	if errors.As(reason, &held) {
		held.RetryAfter, held.Owner = s.timeToFree(until), s.owner(held, until)
	}
	return s.opts.finalError(s.keys, withEnd(reason, end))
}

// timeToFree returns for how long the keys are still held, at most, if calls of the process hold
// them until then; 0 if that is not known.
func (s *waitingCall) timeToFree(until time.Time) time.Duration {
	if left := time.Until(until); left > 0 {
		return left
	}
	if s.watch != nil {
		if left, known := s.watch.TTL(); known && left != multiplex.Forever {
			return left
		}
	}
	return 0
}

// owner returns who has what was found held, if calls of the process hold its keys until then; ""
// if that is not known.
func (s *waitingCall) owner(held *HeldError, until time.Time) string {
	switch {
	case time.Until(until) > 0:
		return s.client.cfg.Owner
	case s.watch != nil && slices.Contains(held.Keys, s.watchedKey):
		return token.Owner(s.watch.Token())
	}
	return ""
}

// next starts an attempt if it is time for one. Otherwise it returns the delay until the next step.
func (s *waitingCall) next() (delay time.Duration) {
	for {
		if s.released.Swap(false) {
			s.policy.Begin(time.Time{})
		}
		todo := s.decide()
		switch {
		case todo.Kind == waiting.Wait, !todo.Retry && !s.mayAttempt():
			if s.sleep() {
				return cmp.Or(todo.Delay, noTimer)
			}
		case s.contending && !s.retryTurn():
			return noTimer
		default:
			s.startAttempt(todo)
			return 0
		}
	}
}

// decide returns what the policy wants, and subscribes to the keys that it wants to watch.
func (s *waitingCall) decide() waiting.Action {
	todo := s.policy.Next(s.facts())
	for ; todo.Kind == waiting.Subscribe; todo = s.policy.Next(s.facts()) {
		s.subscribe(todo.Key, todo.Node)
	}
	return todo
}

// facts returns what is known now.
func (s *waitingCall) facts() waiting.Facts {
	c, now := s.client, time.Now()
	f := waiting.Facts{
		Now: now, Contention: c.contended(s.keys, now),
	}
	if s.watch != nil {
		f.Watch.TTL, f.Watch.Known = s.watch.TTL()
		f.Watch.Notifies, f.Watch.Active = s.watch.Notifies(), s.watch.Active()
	}
	return f
}

// subscribe asks a node for the TTL of a key, and for a report of its next change.
func (s *waitingCall) subscribe(key string, node int) {
	if s.watch != nil && s.watchedKey != key {
		s.watch.Close()
		s.watch = nil
	}
	if s.watch == nil {
		s.watch, s.watchedKey = s.client.mux.Watch(key, s.wake), key
	}
	s.watch.Subscribe(node)
}

// mayAttempt reports whether enough nodes can be reached for the next attempt.
func (s *waitingCall) mayAttempt() bool {
	return !errors.Is(s.reason, ErrNoQuorum) || s.parking.admit(s.client, s.keys)
}

// startAttempt starts the attempt that the policy wants.
func (s *waitingCall) startAttempt(todo waiting.Action) {
	c := s.client
	shared := s.opts.fencing && (s.failed || c.queue.HasWaiters(s.keys[0]))
	s.opts.suspended = c.suspended()
	t := pendingAttempt{
		lease:    c.newLease(s.keys, s.fenceRetry.floor, s.opts.fencesWanted(shared)),
		askedAll: todo.Kind == waiting.AskAll,
	}
	if t.askedAll {
		t.attempt = c.mux.Acquire(t.lease.claim, s.opts.ttl, len(s.keys))
	} else { // if many want the keys, this keeps their votes from splitting
		t.attempt = c.mux.AcquireViaArbiter(t.lease.claim, s.opts.ttl, s.policy.BlockedKey(),
			todo.Node)
	}
	t.lease.holder = s.turn
	s.pending = t
}

// attemptDone takes the outcome of an attempt. It returns the lease, or the error that ends the
// call, or neither if the call continues.
func (s *waitingCall) attemptDone(ctx context.Context, t pendingAttempt, outcome error) (*Lease,
	error,
) {
	c := s.client
	if t.handoff != nil {
		grant := lease.Grant{
			Sent: t.attempt.Sent(), Suspended: t.handoff.suspended, TTL: s.opts.ttl,
			MaxHold: s.opts.maxHold,
		}
		if outcome == nil && c.timeLeft(t.handoff) > 0 && c.beginTerm(t.lease, &s.opts, grant) {
			return t.lease, nil
		}
		c.discardHandoff(t.handoff)
		return nil, nil
	}
	l, err := c.finishAttempt(t.lease, t.attempt, s.opts, outcome)
	if err == nil {
		c.queue.Hold(s.turn, l.Until())
		now := time.Now()
		if contended, ok := s.policy.Granted(now); ok {
			c.contention.Record(contended.Key, contended, now)
		}
		return l, nil
	}
	switch {
	case !retryable(err):
		return nil, err
	case cutShort(ctx, err): // it says nothing new about the keys
		if s.reason == nil {
			s.reason = err
		}
	case s.opts.fencing && s.retryFence(t):
		s.reason = err // if ctx ends now, the keys were not held
	default:
		s.recordFailure(err, t.askedAll)
	}
	return nil, nil
}

// recordFailure records why an attempt failed. askedAll says that it asked all nodes at once.
func (s *waitingCall) recordFailure(err error, askedAll bool) {
	if !errors.Is(err, ErrNoQuorum) { // without a quorum the next call would hardly find one
		s.parking.finish()
	}
	s.failed, s.reason = true, err
	why := waiting.Failure{AskedAll: askedAll}
	var held *HeldError
	if errors.As(err, &held) && len(held.Keys) > 0 {
		why.Key, why.Refusals = held.Keys[0], len(held.Nodes)
	}
	s.policy.Failed(s.facts(), why, s.opts.retryDelay())
}

// retryDelay returns a random delay between two attempts.
func (o *callOptions) retryDelay() time.Duration {
	delay := o.minDelay
	if spread := o.maxDelay - o.minDelay; spread > 0 {
		delay += rand.N(spread)
	}
	return delay
}
