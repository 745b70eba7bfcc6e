package lockpipe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
	"github.com/lockpipe/lockpipe/waitroom"
)

const (
	// patientPauses is by how much longer the pauses between attempts are where a push tells when
	// the keys are free.
	pushDelayFactor = 8
	// maxVain is how often one node is the judge where the key seems free there and yet is not to
	// be had: another may know more.
	triesPerArbiter = 4
	// maxBlind is for how long the judge alone is asked at most, however often it tells of
	// something new: another may hold the keys only there.
	maxArbiterOnly = 2 * time.Second
	// minPause is the shortest pause where nobody is known to hold the keys: such an attempt may
	// have failed without a trip, in no time.
	minNoQuorumDelay = time.Millisecond
)

// forever is a time for a timer that is not to fire.
const noTimer = time.Duration(1<<63 - 1)

// wait is a call that waits until it is granted its keys.
func (c *Client) acquire(ctx context.Context, keys []string, opts []Option) (*Lease, error) {
	l, err := c.waitAcquire(ctx, keys, opts)
	if err != nil {
		c.meters.failed(callWait, err, 1)
	}
	return l, err
}

func (c *Client) waitAcquire(ctx context.Context, keys []string, opts []Option) (*Lease, error) {
	keys, o, err := c.validateCall(ctx, callWait, keys, opts)
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

// contended reports whether others want the same keys: of this process, or, not long ago, of
// another.
func (c *Client) hasContention(keys []string) bool {
	if c.queue.Waiting() == 0 && !c.contention.any.Load() {
		return false
	}
	room := queueKey(keys)
	return c.queue.HasWaiters(room) || c.contention.lookup(room).key != ""
}

// room is the name of the queue for these keys: those who want the same keys, in the same order,
// are in one. Sets that overlap have different ones: who waits for a and b must not keep from b who
// has a already.
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

// seeker is one waiting call. Callers of one process queue for their keys, unless the number of
// their attempts is limited. While the keys are held in the process, the first of them is handed
// the lease, or told that they are free. Otherwise it competes on the masters: it has one of those
// that refused it, the judge, tell when the key is changed, and asks the judge first then; and it
// asks all of them now and then, in case nothing is told.
type waitingCall struct {
	client   *Client
	keys     []string
	opts     callOptions
	queueKey [1]string       // empty for a call that does not queue
	waiter   waitroom.Waiter // in the room
	lastHint time.Time       // of the room, when it was looked at last
	wake     chan struct{}   // of capacity 1; nil for an asyncCall

	attempts       int
	reason         error     // of the last attempt that was decided; nil before the first
	arbiter        int       // the node to ask first; -1: all at once
	askAllAt       time.Time // when all are to be asked again, whatever the judge says
	askAllDeadline time.Time // until when that can be put off; zero: it was not put off yet
	blockedKey     string    // the key that the judge has for another
	watch          *multiplex.Watch
	watchedKey     string     // its key
	subscribed     bool       // the watch was armed since the last attempt
	pushEnabled    bool       // the judge tells of changes
	futileTries    int        // attempts in vain since the key was seen to be held
	fenceRetry     fenceRetry // attempts that failed for their fence alone
	retryNow       bool       // the last one did, and the next one is made at once
	parking        parkedCall // during an outage

	contendingSince time.Time // when it began to compete with other processes; zero: it does not yet
	backoffUntil    time.Time // until when it leaves the keys to them
	checkFirst      bool      // it asks first whether the keys are free, because others are known to compete
	sawHeld         bool      // they were held, since
	lostRaces       int       // how often another was quicker, since
}

func newWaitingCall(c *Client, keys []string, o callOptions) *waitingCall {
	s := &waitingCall{wake: make(chan struct{}, 1)}
	s.init(c, keys, o, s.signal)
	return s
}

// init makes s ready; wake has its next step taken.
func (s *waitingCall) init(c *Client, keys []string, o callOptions, wake func()) {
	s.client, s.keys, s.opts, s.arbiter = c, keys, o, -1
	s.waiter.Wake = wake
	s.parking.arrived, s.parking.wake = o.start, wake
	if o.maxAttempts == 0 {
		s.queueKey[0] = queueKey(keys)
	}
}

// signal has the next step taken. It does not block.
func (s *waitingCall) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// seek returns when the keys are granted, or the error that ends the call.
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

// leave makes room for the next one, and tells it until when the keys are held by l, if that was
// granted. Where it was not, nothing is told: what this one was told may be over.
func (s *waitingCall) leave(l *Lease) {
	s.client.outage.finish(&s.parking)
	if s.watch != nil {
		s.watch.Close()
	}
	var until time.Time
	if l != nil {
		until = l.Until()
	}
	g, ok := s.client.queue.Leave(&s.waiter, until).(*handoff)
	switch {
	case !ok:
	case l == nil:
		s.client.forwardHandoff(s.queueKey[:], g)
	default: // the masters granted the keys to l, so they had lost what is given
		s.client.mux.Release(g.claim, g.claim.Len())
	}
}

// steps takes one step after the other until one of them ends the call.
func (s *waitingCall) loop(ctx context.Context) (*Lease, error) {
	timer := time.NewTimer(noTimer)
	defer timer.Stop()
	for {
		l, pause, err := s.step(ctx)
		if l != nil || err != nil {
			return l, err
		}
		timer.Reset(pause)
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

// cutOff is the error of a call that end ended.
func (s *waitingCall) abortError(end error) error {
	reason := s.reason
	if reason == nil { // those before it had the keys all the time
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

// left is for how long the keys are known to be held yet, at most; 0 where that is not known.
func (s *waitingCall) timeToFree(now time.Time) time.Duration {
	if left := s.client.queue.HeldUntil(&s.waiter).Sub(now); left > 0 {
		return left // by a caller of this client
	}
	if s.watch != nil {
		if left, known := s.watch.Left(); known && left != multiplex.Forever {
			return left
		}
	}
	return 0
}

// step does what can be done now, and returns the lease, or how long there is nothing to do unless
// it is woken.
func (s *waitingCall) step(ctx context.Context) (*Lease, time.Duration, error) {
	l, t, pause := s.next()
	if t.attempt == nil {
		return l, pause, nil
	}
	return s.attemptDone(ctx, t, t.attempt.Wait(ctx, time.Time{}))
}

// try is one attempt of a seeker that is under way.
type pendingAttempt struct {
	lease    *Lease
	attempt  *multiplex.Attempt
	handoff  *handoff // which the attempt extends; nil for an acquire
	askedAll bool     // all nodes were asked at once
}

// begin accepts what was handed over, or starts an attempt if it is time for one, or says how long
// to wait.
func (s *waitingCall) next() (l *Lease, t pendingAttempt, pause time.Duration) {
	c := s.client
	if g, ok := c.queue.Accept(&s.waiter).(*handoff); ok {
		if l, a := c.acceptHandoff(g, s.opts); a != nil {
			return nil, pendingAttempt{lease: l, attempt: a, handoff: g}, 0
		} else if l != nil {
			return l, t, 0
		}
		s.discardHandoff(g)
	}
	if s.queueKey[0] != "" && !c.queue.First(&s.waiter) {
		return nil, t, noTimer
	}
	again := s.retryNow
	s.retryNow = false
	if !again {
		if pause := s.nextDelay(); pause > 0 {
			return nil, t, pause
		}
		if !s.mayAttempt() {
			return nil, t, noTimer
		}
	}
	shared := s.opts.fencing && s.queueKey[0] != "" && (s.attempts > 0 || c.queue.HasSuccessor(&s.waiter))
	s.opts.suspended = c.leases.Suspended()
	t = pendingAttempt{lease: c.newLease(s.keys, s.fenceRetry.floor, s.opts.fencesWanted(shared))}
	// The judge may have granted the attempt that was too low, and be the last to hear of its
	// release: it alone must not refuse this one.
	t.askedAll = again || s.arbiter < 0 || !time.Now().Before(s.askAllAt)
	if t.askedAll {
		t.attempt = c.mux.Acquire(t.lease.claim, s.opts.ttl, len(s.keys))
	} else { // where many want the keys, this keeps their votes from splitting
		t.attempt = c.mux.Contend(t.lease.claim, s.opts.ttl, s.arbiter)
	}
	return nil, t, 0
}

// admitted reports whether the call may make its next attempt, as far as the nodes are concerned. A
// call with a limit of attempts always may.
func (s *waitingCall) mayAttempt() bool {
	if s.queueKey[0] == "" || !errors.Is(s.reason, ErrNoQuorum) {
		return true
	}
	return s.client.outage.admit(&s.parking)
}

// reject releases what was handed over and can't be kept.
func (s *waitingCall) discardHandoff(g *handoff) {
	s.client.mux.Release(g.claim, g.claim.Len())
	s.client.queue.NotifyFree(s.queueKey[:], time.Now())
}

// end takes the outcome of an attempt.
func (s *waitingCall) attemptDone(ctx context.Context, t pendingAttempt, outcome error) (l *Lease, pause time.Duration,
	err error,
) {
	c := s.client
	if t.handoff != nil {
		grant := lease.Grant{
			Sent: t.attempt.Sent(), Suspended: t.handoff.suspended, TTL: s.opts.ttl, MaxHold: s.opts.maxHold,
		}
		if outcome == nil && c.timeLeft(t.handoff) > 0 && c.beginTerm(t.lease, &s.opts, grant) {
			return t.lease, 0, nil
		}
		s.discardHandoff(t.handoff)
		return nil, 0, nil
	}
	l, err = c.finishAttempt(t.lease, t.attempt, s.opts, outcome)
	if err == nil && s.pushEnabled {
		// Without being told of changes nobody comes in time, and a rest would only leave the keys
		// unused.
		c.contention.record(s.queueKey[0], contendedAcquire{
			s.blockedKey, time.Since(s.contendingSince), s.backoffUntil.Sub(s.contendingSince), s.lostRaces,
			!s.sawHeld,
		})
	}
	if err == nil || !retryable(err) {
		return l, 0, err
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		if s.reason == nil {
			s.reason = err
		}
		// The end of ctx cut the attempt short: it is no news about the keys.
		return nil, 0, s.abortError(ctx.Err())
	}
	if s.opts.fencing && s.retryFence(t) {
		s.reason = err // should ctx end now, the keys were not held
		return nil, 0, nil
	}
	s.recordFailure(err, t.askedAll)
	if s.attempts == s.opts.maxAttempts {
		return nil, 0, withCtxErr(ctx, err)
	}
	return nil, s.nextDelay(), nil
}

// pause is how long there is nothing to try for, if nobody says otherwise meanwhile.
func (s *waitingCall) nextDelay() time.Duration {
	hint := s.client.queue.HeldUntil(&s.waiter)
	told := !hint.Equal(s.lastHint)
	s.lastHint = hint
	now := time.Now()
	if hint.After(now) {
		s.lastHint = time.Time{} // when it is over, that is news
		return hint.Sub(now)     // held in this process: it will be handed over
	}
	if told || s.contendingSince.IsZero() {
		s.startContending(now)
	}
	switch away := s.backoffUntil.Sub(now); {
	case away > 0:
		return away
	case told && !s.checkFirst:
		return 0 // released in this process, and nobody else is known to want it
	}
	return s.remainingHold(now)
}

// compete begins the competition with other processes: with a rest, and a look at the judge, where
// any are known.
func (s *waitingCall) startContending(now time.Time) {
	known := s.client.contention.lookup(s.queueKey[0])
	s.contendingSince, s.backoffUntil, s.lostRaces, s.sawHeld, s.checkFirst = now, now.Add(known.backoff), 0, false, known.key != ""
	if s.checkFirst {
		s.chooseArbiter(known.key)
		s.askAllAt, s.askAllDeadline = s.backoffUntil.Add(s.opts.maxDelay), time.Time{}
	}
}

// held is for how long the keys are known to be held by other processes.
func (s *waitingCall) remainingHold(now time.Time) time.Duration {
	pause := max(s.askAllAt.Sub(now), 0)
	if s.arbiter < 0 || s.blockedKey == "" {
		return pause
	}
	s.watchBlockedKey()
	left, known := s.watch.Left()
	if known {
		s.pushEnabled = s.watch.Told()
	}
	switch {
	case known && left > 0:
		s.futileTries, s.sawHeld = 0, true
		return min(pause, left)
	case (known || !s.watch.Armed()) && s.futileTries < 3*triesPerArbiter:
		// Beyond that it can't be told whether it is held.
		return 0 // the key is gone, or was changed
	}
	return pause
}

// arm asks the judge to tell when the key that is held there is changed, unless it was asked
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
	s.watch.Arm(s.arbiter)
}

// tried notes that an attempt failed.
func (s *waitingCall) recordFailure(err error, all bool) {
	if !errors.Is(err, ErrNoQuorum) { // else the next call would hardly find one now
		s.client.outage.finish(&s.parking)
	}
	s.attempts++
	s.futileTries++
	s.reason = err
	var held *HeldError
	blocked := ""
	if errors.As(err, &held) && len(held.Keys) > 0 {
		blocked = held.Keys[0]
		if !all && len(held.Nodes) == 1 {
			s.lostRaces++
		}
	}
	s.chooseArbiter(blocked)
	if !all && s.arbiter >= 0 && !s.pushEnabled {
		return
	}
	pause := s.opts.minDelay
	if spread := s.opts.maxDelay - s.opts.minDelay; spread > 0 {
		pause += rand.N(spread)
	}
	if s.pushEnabled {
		pause *= pushDelayFactor
	}
	if blocked == "" {
		pause = max(pause, minNoQuorumDelay)
	}
	s.scheduleAskAll(pause, all)
}

// putOff has all nodes asked again after the pause. Where they were not asked now, it is put off no
// further than allBy.
func (s *waitingCall) scheduleAskAll(pause time.Duration, asked bool) {
	now := time.Now()
	if asked || s.askAllDeadline.IsZero() {
		s.askAllDeadline = now.Add(max(pause, maxArbiterOnly))
	}
	s.askAllAt = now.Add(pause)
	if s.askAllAt.After(s.askAllDeadline) {
		s.askAllAt = s.askAllDeadline
	}
}

// refused chooses the judge for the key that another has, if one is to blame.
func (s *waitingCall) chooseArbiter(blocked string) {
	judge := -1
	if blocked != "" {
		judge = s.client.mux.Judge(s.client.cfg.Prefix+blocked, s.futileTries/triesPerArbiter)
	}
	s.subscribed = s.subscribed && judge == s.arbiter && blocked == s.blockedKey && s.watch.Armed()
	s.arbiter, s.blockedKey = judge, blocked
}

// withCause adds ctx's error, if it has ended, to the reason of the last attempt.
func withCtxErr(ctx context.Context, reason error) error {
	if err := ctx.Err(); err != nil && !errors.Is(reason, err) {
		return errorf("%w: %w", reason, err)
	}
	return reason
}

// waited tells how long a call waited, and for what.
func wrapWaited(start time.Time, keys []string, err error) error {
	more := ""
	if len(keys) > 1 {
		more = fmt.Sprintf(" and %d more", len(keys)-1)
	}
	return errorf("waited %v for %.64q%s: %w", time.Since(start).Round(time.Millisecond), keys[0],
		more, err)
}
