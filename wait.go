package lockpipe

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/internal/metrics"
	"github.com/lockpipe/lockpipe/internal/waiting"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
	"github.com/lockpipe/lockpipe/waitroom"
)

// acquire is a call that waits until its keys are granted. It counts failed calls.
func (c *Client) acquire(ctx context.Context, keys []string, opts []Option) (*Lease, error) {
	l, err := c.waitAcquire(ctx, keys, opts)
	if err != nil {
		c.metrics.failed(metrics.Wait, err, 1)
	}
	return l, err
}

func (c *Client) waitAcquire(ctx context.Context, keys []string, opts []Option) (*Lease, error) {
	keys, o, err := c.validateCall(ctx, metrics.Wait, keys, opts)
	if err != nil {
		return nil, err
	}
	if err := c.beginCall(); err != nil {
		return nil, err
	}
	defer c.endCall()
	if err := ctx.Err(); err != nil {
		return nil, errorf("%w", err)
	}
	o.start = time.Now()
	if o.maxAttempts > 0 {
		return c.drive(ctx, &limitedCall{client: c, keys: keys, opts: o}, nil)
	}
	var failed error
	if !c.hasContention(keys) {
		l, err := c.attempt(ctx, keys, o)
		if err == nil || !retryable(err) {
			return l, err
		}
		failed = err
	}
	wake := make(chan struct{}, 1)
	s := newWaitingCall(c, keys, o, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if failed != nil {
		s.recordFailure(failed, true)
	}
	if !s.enter() {
		return nil, ErrOverloaded
	}
	return c.drive(ctx, s, wake)
}

// hasContention reports whether other calls of this process want the same keys, or calls of another
// process did not long ago.
func (c *Client) hasContention(keys []string) bool {
	if c.queue.Waiting() == 0 && !c.contention.Any() {
		return false
	}
	key := queueKey(keys)
	return c.queue.HasWaiters(key) || c.contention.Lookup(key, time.Now()).Key != ""
}

// queueKey is the name of the queue for these keys. Calls for the same keys, in the same order, are
// in one queue. Sets that overlap have different queues: a call that waits for a and b must not
// keep a call that has a from b.
func queueKey(keys []string) string {
	if len(keys) == 1 {
		return "1" + keys[0]
	}
	name := []byte("n")
	for _, k := range keys {
		name = strconv.AppendInt(name, int64(len(k)), 10)
		name = append(append(name, ':'), k...)
	}
	return string(name)
}

// waitingCall is one call that waits until its keys are granted. The calls of one process queue for
// their keys. While the process holds the keys, the first in the queue is handed the lease, or is
// notified that the keys are free. Otherwise it contends on the nodes, by its policy.
type waitingCall struct {
	client   *Client
	keys     []string
	opts     callOptions
	queueKey [1]string
	waiter   waitroom.Waiter  // in the queue
	waker    *multiplex.Waker // nil: advance waits for the attempts

	pending    pendingAttempt // under way
	policy     waiting.Policy
	watch      *multiplex.Watch
	watchedKey string     // the key of watch
	failed     bool       // an attempt failed, not only for its fence
	reason     error      // of the last attempt that was decided; nil before the first
	fenceRetry fenceRetry // attempts that failed for their fence alone
	parking    parkedCall // during an outage
}

// newWaitingCall returns a call that is ready to enter its queue. wake has its owner call advance.
// It must not block.
func newWaitingCall(c *Client, keys []string, o callOptions, wake func()) *waitingCall {
	s := &waitingCall{client: c, keys: keys, opts: o, queueKey: [1]string{queueKey(keys)}}
	s.policy.MaxDelay, s.policy.Arbiter = o.maxDelay, c.arbiter
	s.waiter.Wake = wake
	s.parking.arrived, s.parking.wake = o.start, wake
	return s
}

// enter puts the call at the end of its queue, or reports that too many calls wait.
func (s *waitingCall) enter() bool {
	return s.client.queue.Enter(&s.waiter, s.queueKey[:], maxPending)
}

// leave takes the call out of the queue. If l was granted, the next call learns until when l holds
// the keys. Otherwise it learns nothing: what this call knew may be outdated.
func (s *waitingCall) leave(l *Lease) {
	s.client.outage.finish(&s.parking)
	if s.watch != nil {
		s.watch.Close()
	}
	var until time.Time
	if l != nil {
		until = l.Until()
	}
	h, ok := s.client.queue.Leave(&s.waiter, until).(*handoff)
	switch {
	case !ok:
	case l == nil:
		s.client.forwardHandoff(s.queueKey[:], h)
	default: // the nodes granted the keys to l, so they had lost the lease that is handed off
		s.client.mux.Release(h.claim, h.claim.Len())
	}
}

// advance implements pendingCall.
func (s *waitingCall) advance(ctx context.Context) (l *Lease, delay time.Duration, err error) {
	for {
		if s.pending.attempt == nil {
			if end := s.client.endReason(ctx); end != nil {
				return nil, 0, s.abortError(end)
			}
			if l, delay = s.next(); l != nil || delay > 0 {
				return l, delay, nil
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

// abortError returns the error of a call that ctx or Close ended with end.
func (s *waitingCall) abortError(end error) error {
	reason := s.reason
	if reason == nil { // the calls before it in the queue had the keys all the time
		reason = &HeldError{Keys: []string{s.keys[0]}} // keys may be the caller's slice
	}
	var held *HeldError
	if errors.As(reason, &held) {
		held.RetryAfter = s.timeToFree(time.Now())
	}
	return s.opts.finalError(s.keys, withEnd(reason, end))
}

// timeToFree returns for how long the keys are still held, at most; 0 if that is not known.
func (s *waitingCall) timeToFree(now time.Time) time.Duration {
	if left := s.client.queue.HeldUntil(&s.waiter).Sub(now); left > 0 {
		return left // by a caller of this client
	}
	if s.watch != nil {
		if left, known := s.watch.TTL(); known && left != multiplex.Forever {
			return left
		}
	}
	return 0
}

// next accepts a handoff, or starts an attempt if it is time for one, or returns the delay until
// the next step.
func (s *waitingCall) next() (l *Lease, delay time.Duration) {
	c := s.client
	if h, ok := c.queue.Accept(&s.waiter).(*handoff); ok {
		if l, a := c.acceptHandoff(h, s.opts); a != nil {
			s.pending = pendingAttempt{lease: l, attempt: a, handoff: h}
			return nil, 0
		} else if l != nil {
			return l, 0
		}
		s.discardHandoff(h)
	}
	if !c.queue.First(&s.waiter) {
		return nil, noTimer
	}
	todo := s.policy.Next(s.facts())
	for ; todo.Kind == waiting.Subscribe; todo = s.policy.Next(s.facts()) {
		s.subscribe(todo.Key, todo.Node)
	}
	if todo.Kind == waiting.Wait {
		return nil, todo.Delay
	}
	if !todo.Retry && !s.mayAttempt() {
		return nil, noTimer
	}
	s.startAttempt(todo)
	return nil, 0
}

// facts returns what is known now.
func (s *waitingCall) facts() waiting.Facts {
	c, now := s.client, time.Now()
	f := waiting.Facts{
		Now: now, HeldUntil: c.queue.HeldUntil(&s.waiter),
		Contention: c.contention.Lookup(s.queueKey[0], now),
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
		s.watch, s.watchedKey = s.client.mux.Watch(s.client.cfg.Prefix+key, s.waiter.Wake), key
	}
	s.watch.Subscribe(node)
}

// mayAttempt reports whether enough nodes can be reached for the next attempt.
func (s *waitingCall) mayAttempt() bool {
	return !errors.Is(s.reason, ErrNoQuorum) || s.client.outage.admit(&s.parking)
}

// startAttempt starts the attempt that the policy wants.
func (s *waitingCall) startAttempt(todo waiting.Action) {
	c := s.client
	shared := s.opts.fencing && (s.failed || c.queue.HasSuccessor(&s.waiter))
	s.opts.suspended = c.leases.Suspended()
	t := pendingAttempt{
		lease:    c.newLease(s.keys, s.fenceRetry.floor, s.opts.fencesWanted(shared)),
		askedAll: todo.Kind == waiting.AskAll,
	}
	if t.askedAll {
		t.attempt = c.mux.Acquire(t.lease.claim, s.opts.ttl, len(s.keys))
	} else { // if many want the keys, this keeps their votes from splitting
		t.attempt = c.mux.AcquireViaArbiter(t.lease.claim, s.opts.ttl, todo.Node)
	}
	s.pending = t
}

// discardHandoff releases a lease that was handed off and can't be kept.
func (s *waitingCall) discardHandoff(h *handoff) {
	s.client.mux.Release(h.claim, h.claim.Len())
	s.client.queue.NotifyFree(s.queueKey[:], time.Now())
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
		s.discardHandoff(t.handoff)
		return nil, nil
	}
	l, err := c.finishAttempt(t.lease, t.attempt, s.opts, outcome)
	if err == nil {
		now := time.Now()
		if contended, ok := s.policy.Granted(now); ok {
			c.contention.Record(s.queueKey[0], contended, now)
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
		s.client.outage.finish(&s.parking)
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
