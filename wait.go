package lockpipe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/internal/metrics"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
	"github.com/lockpipe/lockpipe/waitroom"
)

const (
	// pushDelayFactor is how many times longer the delay between attempts is if a push notifies
	// the call when the keys are free.
	pushDelayFactor = 8
	// triesPerArbiter is how often one node is the arbiter if the key seems free there, but the
	// attempt fails: another node may know more.
	triesPerArbiter = 4
	// maxArbiterOnly is for how long a call asks only the arbiter at most, however often that
	// reports something new: another may hold the keys only there.
	maxArbiterOnly = 2 * time.Second
	// minNoQuorumDelay is the shortest delay if nobody is known to hold the keys: such an attempt
	// may have failed in no time, without a round trip.
	minNoQuorumDelay = time.Millisecond
)

// noTimer is a time for a timer that must not fire.
const noTimer = time.Duration(1<<63 - 1)

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
	if o.maxAttempts > 0 || !c.hasContention(keys) {
		l, err := c.attempt(ctx, keys, o)
		if err == nil || !retryable(err) {
			return l, err
		}
		if o.maxAttempts == 1 {
			return nil, wrapWaited(o.start, keys, withCtxErr(ctx, err))
		}
		s := newWaitingCall(c, keys, o)
		s.recordFailure(err, true)
		return s.run(ctx)
	}
	return newWaitingCall(c, keys, o).run(ctx)
}

// hasContention reports whether other calls of this process want the same keys, or calls of another
// process did not long ago.
func (c *Client) hasContention(keys []string) bool {
	if c.queue.Waiting() == 0 && !c.contention.any.Load() {
		return false
	}
	key := queueKey(keys)
	return c.queue.HasWaiters(key) || c.contention.lookup(key).key != ""
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

// waitingCall is one waiting call. Callers of one process queue for their keys, unless the number
// of their attempts is limited. While the process holds the keys, the first in the queue is handed
// the lease, or is notified that the keys are free. Otherwise it contends on the nodes. One of
// those that refused it is the arbiter. The arbiter notifies the call when the key changes, and
// then the call asks the arbiter first. Now and then it asks all nodes, in case no notification
// comes.
type waitingCall struct {
	client   *Client
	keys     []string
	opts     callOptions
	queueKey [1]string       // empty for a call that does not queue
	waiter   waitroom.Waiter // in the queue
	lastHint time.Time       // HeldUntil of the queue, when the call read it last
	wake     chan struct{}   // of capacity 1; nil for an asyncCall

	attempts       int
	reason         error     // of the last attempt that was decided; nil before the first
	arbiter        int       // the node to ask first; -1: all at once
	askAllAt       time.Time // when to ask all again, whatever the arbiter says
	askAllDeadline time.Time // until when that can be postponed; zero: it was not postponed yet
	blockedKey     string    // the key that the arbiter holds for another token
	watch          *multiplex.Watch
	watchedKey     string     // the key of watch
	subscribed     bool       // the call has subscribed with watch since the last attempt
	pushEnabled    bool       // the arbiter pushes changes
	futileTries    int        // failed attempts since the key was last seen to be held
	fenceRetry     fenceRetry // attempts that failed for their fence alone
	retryNow       bool       // the last attempt did, and the next one is made at once
	parking        parkedCall // during an outage

	contendingSince time.Time // with other processes; zero: it does not contend yet
	backoffUntil    time.Time // until when it does not try for the keys
	checkFirst      bool      // others are known to contend: ask whether the keys are free first
	sawHeld         bool      // the keys were held since contendingSince
	lostRaces       int       // how often another was quicker since contendingSince
}

func newWaitingCall(c *Client, keys []string, o callOptions) *waitingCall {
	s := &waitingCall{wake: make(chan struct{}, 1)}
	s.init(c, keys, o, s.signal)
	return s
}

// init makes s ready. The call's owner takes its next step after each wake.
func (s *waitingCall) init(c *Client, keys []string, o callOptions, wake func()) {
	s.client, s.keys, s.opts, s.arbiter = c, keys, o, -1
	s.waiter.Wake = wake
	s.parking.arrived, s.parking.wake = o.start, wake
	if o.maxAttempts == 0 {
		s.queueKey[0] = queueKey(keys)
	}
}

// signal wakes loop for the next step. It does not block.
func (s *waitingCall) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run returns the lease when the keys are granted, or the error that ends the call.
func (s *waitingCall) run(ctx context.Context) (*Lease, error) {
	c := s.client
	if s.queueKey[0] != "" && !c.queue.Enter(&s.waiter, s.queueKey[:], maxPending) {
		return nil, ErrOverloaded
	}
	l, err := s.loop(ctx)
	if err == nil {
		s.leave(l)
		return l, nil
	}
	s.leave(nil)
	if !retryable(err) {
		return nil, err
	}
	return nil, wrapWaited(s.opts.start, s.keys, err)
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

// loop takes one step after another until one of them ends the call.
func (s *waitingCall) loop(ctx context.Context) (*Lease, error) {
	timer := time.NewTimer(noTimer)
	defer timer.Stop()
	for {
		l, delay, err := s.step(ctx)
		if l != nil || err != nil {
			return l, err
		}
		timer.Reset(delay)
		select {
		case <-s.wake:
		case <-timer.C:
		case <-ctx.Done():
			return nil, s.abortError(ctx.Err())
		case <-s.client.closing:
			return nil, s.abortError(ErrClosed)
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
	if errors.Is(reason, end) {
		return reason
	}
	return errorf("%w: %w", reason, end)
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

// step does what can be done now. It returns the lease, or the delay until the next step if nothing
// wakes the call before.
func (s *waitingCall) step(ctx context.Context) (*Lease, time.Duration, error) {
	l, t, delay := s.next()
	if t.attempt == nil {
		return l, delay, nil
	}
	return s.attemptDone(ctx, t, attemptError(t.attempt.Wait(ctx, time.Time{})))
}

// pendingAttempt is an attempt of a waiting call that is under way.
type pendingAttempt struct {
	lease    *Lease
	attempt  *multiplex.Attempt
	handoff  *handoff // which the attempt extends; nil for an acquire
	askedAll bool     // all nodes were asked at once
}

// next accepts a handoff, or starts an attempt if it is time for one, or returns the delay until
// the next step.
func (s *waitingCall) next() (l *Lease, t pendingAttempt, delay time.Duration) {
	c := s.client
	if h, ok := c.queue.Accept(&s.waiter).(*handoff); ok {
		if l, a := c.acceptHandoff(h, s.opts); a != nil {
			return nil, pendingAttempt{lease: l, attempt: a, handoff: h}, 0
		} else if l != nil {
			return l, t, 0
		}
		s.discardHandoff(h)
	}
	if s.queueKey[0] != "" && !c.queue.First(&s.waiter) {
		return nil, t, noTimer
	}
	retry := s.retryNow
	s.retryNow = false
	if !retry {
		if delay := s.nextDelay(); delay > 0 {
			return nil, t, delay
		}
		if !s.mayAttempt() {
			return nil, t, noTimer
		}
	}
	shared := s.opts.fencing && s.queueKey[0] != "" &&
		(s.attempts > 0 || c.queue.HasSuccessor(&s.waiter))
	s.opts.suspended = c.leases.Suspended()
	t.lease = c.newLease(s.keys, s.fenceRetry.floor, s.opts.fencesWanted(shared))
	// The arbiter may have granted the attempt whose fence was too low, and be the last to get its
	// release. It alone must not refuse this attempt.
	t.askedAll = retry || s.arbiter < 0 || !time.Now().Before(s.askAllAt)
	if t.askedAll {
		t.attempt = c.mux.Acquire(t.lease.claim, s.opts.ttl, len(s.keys))
	} else { // if many want the keys, this keeps their votes from splitting
		t.attempt = c.mux.AcquireViaArbiter(t.lease.claim, s.opts.ttl, s.arbiter)
	}
	return nil, t, 0
}

// mayAttempt reports whether enough nodes can be reached for the next attempt. A call with a limit
// of attempts may always make it.
func (s *waitingCall) mayAttempt() bool {
	if s.queueKey[0] == "" || !errors.Is(s.reason, ErrNoQuorum) {
		return true
	}
	return s.client.outage.admit(&s.parking)
}

// discardHandoff releases a lease that was handed off and can't be kept.
func (s *waitingCall) discardHandoff(h *handoff) {
	s.client.mux.Release(h.claim, h.claim.Len())
	s.client.queue.NotifyFree(s.queueKey[:], time.Now())
}

// attemptDone takes the outcome of an attempt. It returns the lease, the error that ends the call,
// or the delay until the next step.
func (s *waitingCall) attemptDone(ctx context.Context, t pendingAttempt, outcome error) (
	l *Lease, delay time.Duration, err error,
) {
	c := s.client
	if t.handoff != nil {
		grant := lease.Grant{
			Sent: t.attempt.Sent(), Suspended: t.handoff.suspended, TTL: s.opts.ttl,
			MaxHold: s.opts.maxHold,
		}
		if outcome == nil && c.timeLeft(t.handoff) > 0 && c.beginTerm(t.lease, &s.opts, grant) {
			return t.lease, 0, nil
		}
		s.discardHandoff(t.handoff)
		return nil, 0, nil
	}
	l, err = c.finishAttempt(t.lease, t.attempt, s.opts, outcome)
	if err == nil && s.pushEnabled {
		// Without pushes no call comes in time, and a backoff would only leave the keys unused.
		c.contention.record(s.queueKey[0], contendedAcquire{
			key: s.blockedKey, took: time.Since(s.contendingSince),
			backoff:   s.backoffUntil.Sub(s.contendingSince),
			lostRaces: s.lostRaces, wasFree: !s.sawHeld,
		})
	}
	if err == nil || !retryable(err) {
		return l, 0, err
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		if s.reason == nil {
			s.reason = err
		}
		// The end of ctx cut the attempt short: it says nothing new about the keys.
		return nil, 0, s.abortError(ctx.Err())
	}
	if s.opts.fencing && s.retryFence(t) {
		s.reason = err // if ctx ends now, the keys were not held
		return nil, 0, nil
	}
	s.recordFailure(err, t.askedAll)
	if s.attempts == s.opts.maxAttempts {
		return nil, 0, withCtxErr(ctx, err)
	}
	return nil, s.nextDelay(), nil
}

// nextDelay returns the delay until the next try, if nothing wakes the call before.
func (s *waitingCall) nextDelay() time.Duration {
	hint := s.client.queue.HeldUntil(&s.waiter)
	isNew := !hint.Equal(s.lastHint)
	s.lastHint = hint
	now := time.Now()
	if hint.After(now) {
		s.lastHint = time.Time{} // its end is new
		return hint.Sub(now)     // held in this process: it will be handed off
	}
	if isNew || s.contendingSince.IsZero() {
		s.startContending(now)
	}
	switch backoff := s.backoffUntil.Sub(now); {
	case backoff > 0:
		return backoff
	case isNew && !s.checkFirst:
		return 0 // released in this process, and no other process is known to contend
	}
	return s.remainingHold(now)
}

// startContending starts contending with other processes. If any are known, the call backs off
// first, and then asks the arbiter.
func (s *waitingCall) startContending(now time.Time) {
	known := s.client.contention.lookup(s.queueKey[0])
	s.contendingSince, s.backoffUntil = now, now.Add(known.backoff)
	s.lostRaces, s.sawHeld, s.checkFirst = 0, false, known.key != ""
	if s.checkFirst {
		s.chooseArbiter(known.key)
		s.askAllAt, s.askAllDeadline = s.backoffUntil.Add(s.opts.maxDelay), time.Time{}
	}
}

// remainingHold returns for how long other processes are known to hold the keys.
func (s *waitingCall) remainingHold(now time.Time) time.Duration {
	delay := max(s.askAllAt.Sub(now), 0)
	if s.arbiter < 0 || s.blockedKey == "" {
		return delay
	}
	s.watchBlockedKey()
	left, known := s.watch.TTL()
	if known {
		s.pushEnabled = s.watch.Notifies()
	}
	switch {
	case known && left > 0:
		s.futileTries, s.sawHeld = 0, true
		return min(delay, left)
	case (known || !s.watch.Active()) && s.futileTries < 3*triesPerArbiter:
		// After that many tries the watch says nothing about whether the keys are held.
		return 0 // the key is gone, or has changed
	}
	return delay
}

// watchBlockedKey subscribes to the blocked key on the arbiter, unless the call has done so
// already.
func (s *waitingCall) watchBlockedKey() {
	if s.subscribed {
		return
	}
	s.subscribed = true
	if s.watch != nil && s.watchedKey != s.blockedKey {
		s.watch.Close()
		s.watch = nil
	}
	if s.watch == nil {
		s.watch, s.watchedKey = s.client.mux.Watch(s.client.cfg.Prefix+s.blockedKey, s.waiter.Wake),
			s.blockedKey
	}
	s.watch.Subscribe(s.arbiter)
}

// recordFailure records that an attempt failed, and when to make the next one. askedAll says that
// the attempt asked all nodes at once.
func (s *waitingCall) recordFailure(err error, askedAll bool) {
	if !errors.Is(err, ErrNoQuorum) { // without a quorum the next call would hardly find one
		s.client.outage.finish(&s.parking)
	}
	s.attempts++
	s.futileTries++
	s.reason = err
	var held *HeldError
	blocked := ""
	if errors.As(err, &held) && len(held.Keys) > 0 {
		blocked = held.Keys[0]
		if !askedAll && len(held.Nodes) == 1 {
			s.lostRaces++
		}
	}
	s.chooseArbiter(blocked)
	if !askedAll && s.arbiter >= 0 && !s.pushEnabled {
		return
	}
	delay := s.opts.minDelay
	if spread := s.opts.maxDelay - s.opts.minDelay; spread > 0 {
		delay += rand.N(spread)
	}
	if s.pushEnabled {
		delay *= pushDelayFactor
	}
	if blocked == "" {
		delay = max(delay, minNoQuorumDelay)
	}
	s.scheduleAskAll(delay, askedAll)
}

// scheduleAskAll has all nodes asked again after the delay. If the last attempt did not ask all of
// them, it postpones that no further than askAllDeadline.
func (s *waitingCall) scheduleAskAll(delay time.Duration, askedAll bool) {
	now := time.Now()
	if askedAll || s.askAllDeadline.IsZero() {
		s.askAllDeadline = now.Add(max(delay, maxArbiterOnly))
	}
	s.askAllAt = now.Add(delay)
	if s.askAllAt.After(s.askAllDeadline) {
		s.askAllAt = s.askAllDeadline
	}
}

// chooseArbiter chooses the arbiter for the key that another token holds; an empty key: none.
func (s *waitingCall) chooseArbiter(blocked string) {
	arbiter := -1
	if blocked != "" {
		arbiter = s.client.mux.Arbiter(s.client.cfg.Prefix+blocked, s.futileTries/triesPerArbiter)
	}
	s.subscribed = s.subscribed && arbiter == s.arbiter && blocked == s.blockedKey &&
		s.watch.Active()
	s.arbiter, s.blockedKey = arbiter, blocked
}

// withCtxErr adds ctx's error to the reason of the last attempt, if ctx has ended.
func withCtxErr(ctx context.Context, reason error) error {
	if err := ctx.Err(); err != nil && !errors.Is(reason, err) {
		return errorf("%w: %w", reason, err)
	}
	return reason
}

// wrapWaited adds to err how long a call waited, and for which keys.
func wrapWaited(start time.Time, keys []string, err error) error {
	more := ""
	if len(keys) > 1 {
		more = fmt.Sprintf(" and %d more", len(keys)-1)
	}
	return errorf("waited %v for %.64q%s: %w", time.Since(start).Round(time.Millisecond), keys[0],
		more, err)
}
