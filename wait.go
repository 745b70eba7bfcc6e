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
	patientPauses = 8
	// maxVain is how often one node is the judge where the key seems free there and yet is not to
	// be had: another may know more.
	maxVain = 4
	// maxBlind is for how long the judge alone is asked at most, however often it tells of
	// something new: another may hold the keys only there.
	maxBlind = 2 * time.Second
	// minPause is the shortest pause where nobody is known to hold the keys: such an attempt may
	// have failed without a trip, in no time.
	minPause = time.Millisecond
)

// forever is a time for a timer that is not to fire.
const forever = time.Duration(1<<63 - 1)

// wait is a call that waits until it is granted its keys.
func (c *Client) wait(ctx context.Context, keys []string, opts []Option) (*Lease, error) {
	l, err := c.patiently(ctx, keys, opts)
	if err != nil {
		c.meters.failed(callWait, err, 1)
	}
	return l, err
}

func (c *Client) patiently(ctx context.Context, keys []string, opts []Option) (*Lease, error) {
	keys, o, err := c.prepare(ctx, callWait, keys, opts)
	if err != nil {
		return nil, err
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	if err := ctx.Err(); err != nil {
		return nil, errorf("%w", err)
	}
	o.start = time.Now()
	if o.maxAttempts > 0 || !c.contended(keys) {
		l, err := c.attempt(ctx, keys, o)
		if err == nil || !retryable(err) {
			return l, err
		}
		if o.maxAttempts == 1 {
			return nil, waited(o.start, keys, withCause(ctx, err))
		}
		s := newSeeker(c, keys, o)
		s.tried(err, true)
		return s.seek(ctx)
	}
	return newSeeker(c, keys, o).seek(ctx)
}

// contended reports whether others want the same keys: of this process, or, not long ago, of
// another.
func (c *Client) contended(keys []string) bool {
	if c.rooms.Waiting() == 0 && !c.rivals.some.Load() {
		return false
	}
	room := room(keys)
	return c.rooms.Waits(room) || c.rivals.of(room).key != ""
}

// room is the name of the queue for these keys: those who want the same keys, in the same order,
// are in one. Sets that overlap have different ones: who waits for a and b must not keep from b who
// has a already.
func room(keys []string) string {
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
type seeker struct {
	client *Client
	keys   []string
	o      call
	room   [1]string       // empty for a call that does not queue
	waiter waitroom.Waiter // in the room
	hint   time.Time       // of the room, when it was looked at last
	wake   chan struct{}   // of capacity 1; nil for an asyncCall

	attempts int
	reason   error     // of the last attempt that was decided; nil before the first
	judge    int       // the node to ask first; -1: all at once
	allAt    time.Time // when all are to be asked again, whatever the judge says
	allBy    time.Time // until when that can be put off; zero: it was not put off yet
	blocked  string    // the key that the judge has for another
	watch    *multiplex.Watch
	watched  string     // its key
	armed    bool       // the watch was armed since the last attempt
	told     bool       // the judge tells of changes
	vain     int        // attempts in vain since the key was seen to be held
	behind   lag        // attempts that failed for their fence alone
	again    bool       // the last one did, and the next one is made at once
	parking  parkedCall // during an outage

	since  time.Time // when it began to compete with other processes; zero: it does not yet
	away   time.Time // until when it leaves the keys to them
	polite bool      // it asks first whether the keys are free, because others are known to compete
	seen   bool      // they were held, since
	lost   int       // how often another was quicker, since
}

func newSeeker(c *Client, keys []string, o call) *seeker {
	s := &seeker{wake: make(chan struct{}, 1)}
	s.init(c, keys, o, s.signal)
	return s
}

// init makes s ready; wake has its next step taken.
func (s *seeker) init(c *Client, keys []string, o call, wake func()) {
	s.client, s.keys, s.o, s.judge = c, keys, o, -1
	s.waiter.Wake = wake
	s.parking.arrived, s.parking.wake = o.start, wake
	if o.maxAttempts == 0 {
		s.room[0] = room(keys)
	}
}

// signal has the next step taken. It does not block.
func (s *seeker) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// seek returns when the keys are granted, or the error that ends the call.
func (s *seeker) seek(ctx context.Context) (*Lease, error) {
	c := s.client
	if s.room[0] != "" && !c.rooms.Enter(&s.waiter, s.room[:], maxPending) {
		return nil, ErrOverloaded
	}
	l, err := s.steps(ctx)
	if err == nil {
		s.leave(l)
		return l, nil
	}
	s.leave(nil)
	if !retryable(err) {
		return nil, err
	}
	return nil, waited(s.o.start, s.keys, err)
}

// leave makes room for the next one, and tells it until when the keys are held by l, if that was
// granted. Where it was not, nothing is told: what this one was told may be over.
func (s *seeker) leave(l *Lease) {
	s.client.outage.finish(&s.parking)
	if s.watch != nil {
		s.watch.Close()
	}
	var until time.Time
	if l != nil {
		until = l.Until()
	}
	g, ok := s.client.rooms.Leave(&s.waiter, until).(*gift)
	switch {
	case !ok:
	case l == nil:
		s.client.dispose(s.room[:], g)
	default: // the masters granted the keys to l, so they had lost what is given
		s.client.mux.Release(g.claim, g.claim.Len())
	}
}

// steps takes one step after the other until one of them ends the call.
func (s *seeker) steps(ctx context.Context) (*Lease, error) {
	timer := time.NewTimer(forever)
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
			return nil, s.cutOff(ctx.Err())
		case <-s.client.closed:
			return nil, s.cutOff(ErrClosed)
		}
	}
}

// cutOff is the error of a call that end ended.
func (s *seeker) cutOff(end error) error {
	reason := s.reason
	if reason == nil { // those before it had the keys all the time
		reason = &HeldError{Keys: []string{s.keys[0]}} // keys may be the caller's slice
	}
	var held *HeldError
	if errors.As(reason, &held) {
		held.RetryAfter = s.left(time.Now())
	}
	if errors.Is(reason, end) {
		return reason
	}
	return errorf("%w: %w", reason, end)
}

// left is for how long the keys are known to be held yet, at most; 0 where that is not known.
func (s *seeker) left(now time.Time) time.Duration {
	if left := s.client.rooms.Hint(&s.waiter).Sub(now); left > 0 {
		return left // by a caller of this client
	}
	if s.watch != nil {
		if left, known := s.watch.TTL(); known && left != multiplex.Forever {
			return left
		}
	}
	return 0
}

// step does what can be done now, and returns the lease, or how long there is nothing to do unless
// it is woken.
func (s *seeker) step(ctx context.Context) (*Lease, time.Duration, error) {
	l, t, pause := s.begin()
	if t.attempt == nil {
		return l, pause, nil
	}
	return s.end(ctx, t, t.attempt.Wait(ctx, time.Time{}))
}

// try is one attempt of a seeker that is under way.
type try struct {
	lease   *Lease
	attempt *multiplex.Attempt
	gift    *gift // which the attempt extends; nil for an acquire
	all     bool  // all nodes were asked at once
}

// begin accepts what was handed over, or starts an attempt if it is time for one, or says how long
// to wait.
func (s *seeker) begin() (l *Lease, t try, pause time.Duration) {
	c := s.client
	if g, ok := c.rooms.Take(&s.waiter).(*gift); ok {
		if l, a := c.accept(g, s.o); a != nil {
			return nil, try{lease: l, attempt: a, gift: g}, 0
		} else if l != nil {
			return l, t, 0
		}
		s.reject(g)
	}
	if s.room[0] != "" && !c.rooms.First(&s.waiter) {
		return nil, t, forever
	}
	again := s.again
	s.again = false
	if !again {
		if pause := s.pause(); pause > 0 {
			return nil, t, pause
		}
		if !s.admitted() {
			return nil, t, forever
		}
	}
	shared := s.o.fencing && s.room[0] != "" && (s.attempts > 0 || c.rooms.Followed(&s.waiter))
	s.o.suspended = c.leases.Suspended()
	t = try{lease: c.newLease(s.keys, s.behind.floor, s.o.numbers(shared))}
	// The judge may have granted the attempt that was too low, and be the last to hear of its
	// release: it alone must not refuse this one.
	t.all = again || s.judge < 0 || !time.Now().Before(s.allAt)
	if t.all {
		t.attempt = c.mux.Acquire(t.lease.claim, s.o.ttl, len(s.keys))
	} else { // where many want the keys, this keeps their votes from splitting
		t.attempt = c.mux.AcquireViaArbiter(t.lease.claim, s.o.ttl, s.judge)
	}
	return nil, t, 0
}

// admitted reports whether the call may make its next attempt, as far as the nodes are concerned. A
// call with a limit of attempts always may.
func (s *seeker) admitted() bool {
	if s.room[0] == "" || !errors.Is(s.reason, ErrNoQuorum) {
		return true
	}
	return s.client.outage.admit(&s.parking)
}

// reject releases what was handed over and can't be kept.
func (s *seeker) reject(g *gift) {
	s.client.mux.Release(g.claim, g.claim.Len())
	s.client.rooms.Nudge(s.room[:], time.Now())
}

// end takes the outcome of an attempt.
func (s *seeker) end(ctx context.Context, t try, outcome error) (l *Lease, pause time.Duration,
	err error,
) {
	c := s.client
	if t.gift != nil {
		grant := lease.Grant{
			Sent: t.attempt.Sent(), Suspended: t.gift.suspended, TTL: s.o.ttl, MaxHold: s.o.maxHold,
		}
		if outcome == nil && c.left(t.gift) > 0 && c.keep(t.lease, &s.o, grant) {
			return t.lease, 0, nil
		}
		s.reject(t.gift)
		return nil, 0, nil
	}
	l, err = c.granted(t.lease, t.attempt, s.o, outcome)
	if err == nil && s.told {
		// Without being told of changes nobody comes in time, and a rest would only leave the keys
		// unused.
		c.rivals.won(s.room[0], contest{
			s.blocked, time.Since(s.since), s.away.Sub(s.since), s.lost,
			!s.seen,
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
		return nil, 0, s.cutOff(ctx.Err())
	}
	if s.o.fencing && s.catchUp(t) {
		s.reason = err // should ctx end now, the keys were not held
		return nil, 0, nil
	}
	s.tried(err, t.all)
	if s.attempts == s.o.maxAttempts {
		return nil, 0, withCause(ctx, err)
	}
	return nil, s.pause(), nil
}

// pause is how long there is nothing to try for, if nobody says otherwise meanwhile.
func (s *seeker) pause() time.Duration {
	hint := s.client.rooms.Hint(&s.waiter)
	told := !hint.Equal(s.hint)
	s.hint = hint
	now := time.Now()
	if hint.After(now) {
		s.hint = time.Time{} // when it is over, that is news
		return hint.Sub(now) // held in this process: it will be handed over
	}
	if told || s.since.IsZero() {
		s.compete(now)
	}
	switch away := s.away.Sub(now); {
	case away > 0:
		return away
	case told && !s.polite:
		return 0 // released in this process, and nobody else is known to want it
	}
	return s.held(now)
}

// compete begins the competition with other processes: with a rest, and a look at the judge, where
// any are known.
func (s *seeker) compete(now time.Time) {
	known := s.client.rivals.of(s.room[0])
	s.since, s.away, s.lost, s.seen, s.polite = now, now.Add(known.rest), 0, false, known.key != ""
	if s.polite {
		s.refused(known.key)
		s.allAt, s.allBy = s.away.Add(s.o.maxDelay), time.Time{}
	}
}

// held is for how long the keys are known to be held by other processes.
func (s *seeker) held(now time.Time) time.Duration {
	pause := max(s.allAt.Sub(now), 0)
	if s.judge < 0 || s.blocked == "" {
		return pause
	}
	s.arm()
	left, known := s.watch.TTL()
	if known {
		s.told = s.watch.Notifies()
	}
	switch {
	case known && left > 0:
		s.vain, s.seen = 0, true
		return min(pause, left)
	case (known || !s.watch.Active()) && s.vain < 3*maxVain:
		// Beyond that it can't be told whether it is held.
		return 0 // the key is gone, or was changed
	}
	return pause
}

// arm asks the judge to tell when the key that is held there is changed, unless it was asked
// already.
func (s *seeker) arm() {
	if s.armed {
		return
	}
	s.armed = true
	if s.watch != nil && s.watched != s.blocked {
		s.watch.Close()
		s.watch = nil
	}
	if s.watch == nil {
		s.watch, s.watched = s.client.mux.Watch(s.client.cfg.Prefix+s.blocked, s.waiter.Wake),
			s.blocked
	}
	s.watch.Subscribe(s.judge)
}

// tried notes that an attempt failed.
func (s *seeker) tried(err error, all bool) {
	if !errors.Is(err, ErrNoQuorum) { // else the next call would hardly find one now
		s.client.outage.finish(&s.parking)
	}
	s.attempts++
	s.vain++
	s.reason = err
	var held *HeldError
	blocked := ""
	if errors.As(err, &held) && len(held.Keys) > 0 {
		blocked = held.Keys[0]
		if !all && len(held.Nodes) == 1 {
			s.lost++
		}
	}
	s.refused(blocked)
	if !all && s.judge >= 0 && !s.told {
		return
	}
	pause := s.o.minDelay
	if spread := s.o.maxDelay - s.o.minDelay; spread > 0 {
		pause += rand.N(spread)
	}
	if s.told {
		pause *= patientPauses
	}
	if blocked == "" {
		pause = max(pause, minPause)
	}
	s.putOff(pause, all)
}

// putOff has all nodes asked again after the pause. Where they were not asked now, it is put off no
// further than allBy.
func (s *seeker) putOff(pause time.Duration, asked bool) {
	now := time.Now()
	if asked || s.allBy.IsZero() {
		s.allBy = now.Add(max(pause, maxBlind))
	}
	s.allAt = now.Add(pause)
	if s.allAt.After(s.allBy) {
		s.allAt = s.allBy
	}
}

// refused chooses the judge for the key that another has, if one is to blame.
func (s *seeker) refused(blocked string) {
	judge := -1
	if blocked != "" {
		judge = s.client.mux.Arbiter(s.client.cfg.Prefix+blocked, s.vain/maxVain)
	}
	s.armed = s.armed && judge == s.judge && blocked == s.blocked && s.watch.Active()
	s.judge, s.blocked = judge, blocked
}

// withCause adds ctx's error, if it has ended, to the reason of the last attempt.
func withCause(ctx context.Context, reason error) error {
	if err := ctx.Err(); err != nil && !errors.Is(reason, err) {
		return errorf("%w: %w", reason, err)
	}
	return reason
}

// waited tells how long a call waited, and for what.
func waited(start time.Time, keys []string, err error) error {
	more := ""
	if len(keys) > 1 {
		more = fmt.Sprintf(" and %d more", len(keys)-1)
	}
	return errorf("waited %v for %.64q%s: %w", time.Since(start).Round(time.Millisecond), keys[0],
		more, err)
}
