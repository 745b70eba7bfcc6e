package lockpipe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockpipe/lockpipe/multiplex"
	"github.com/lockpipe/lockpipe/waitroom"
)

// forever is a time for a timer that is not to fire.
const forever = time.Duration(1<<63 - 1)

// wait is a call that waits until it is granted its keys.
func (c *Client) wait(ctx context.Context, keys []string, opts []Option) (*Lease, error) {
	keys, o, err := c.prepare(keys, opts)
	if err != nil {
		return nil, err
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	start := time.Now()
	if !c.awaited(keys) {
		l, err := c.attempt(ctx, keys, o)
		if err == nil || !retryable(err) {
			return l, err
		}
		if o.maxAttempts == 1 {
			return nil, waited(start, keys, withCause(ctx, err))
		}
		s := newSeeker(c, keys, o)
		s.tried(err)
		return s.seek(ctx, start)
	}
	return newSeeker(c, keys, o).seek(ctx, start)
}

// awaited reports whether callers of this process wait for one of the keys: then it is their turn first.
func (c *Client) awaited(keys []string) bool {
	return c.rooms.Waiting() > 0 && slices.ContainsFunc(keys, c.rooms.Waits)
}

// seeker is one waiting call. Callers of one process queue for their keys, and the first one alone tries to get them from the
// masters, unless they are held in the process: then they are handed over, or it is told that they are free.
type seeker struct {
	client *Client
	keys   []string
	o      call
	waiter waitroom.Waiter
	wake   chan struct{} // of capacity 1

	attempts int
	reason   error     // of the last attempt that was decided; nil before the first
	allAt    time.Time // when the masters are to be asked again
}

func newSeeker(c *Client, keys []string, o call) *seeker {
	s := &seeker{client: c, keys: keys, o: o, wake: make(chan struct{}, 1)}
	s.waiter.Wake = s.signal
	return s
}

// signal has the next step taken. It does not block.
func (s *seeker) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// seek returns when the keys are granted, or the error that ends the call.
func (s *seeker) seek(ctx context.Context, start time.Time) (*Lease, error) {
	c := s.client
	if !c.rooms.Enter(&s.waiter, s.keys, maxPending) {
		return nil, ErrOverloaded
	}
	l, err := s.steps(ctx)
	if err == nil {
		s.leave(l.Until())
		return l, nil
	}
	s.leave(time.Time{})
	if !retryable(err) {
		return nil, err
	}
	return nil, waited(start, s.keys, err)
}

// leave makes room for the next one.
func (s *seeker) leave(until time.Time) {
	if g, ok := s.client.rooms.Leave(&s.waiter, until).(*gift); ok {
		s.client.dispose(s.keys, g)
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
		reason = &HeldError{Keys: s.keys[:1]}
	}
	if errors.Is(reason, end) {
		return reason
	}
	return fmt.Errorf("%w: %w", reason, end)
}

// step does what can be done now, and returns the lease, or how long there is nothing to do unless it is woken.
func (s *seeker) step(ctx context.Context) (*Lease, time.Duration, error) {
	l, try, pause := s.begin(ctx)
	if try.attempt == nil {
		return l, pause, nil
	}
	return s.end(ctx, try, time.Time{})
}

// try is one attempt of a seeker that is under way.
type try struct {
	lease   *Lease
	attempt *multiplex.Attempt
}

// begin accepts what was handed over, or starts an attempt if it is time for one, or says how long to wait.
func (s *seeker) begin(ctx context.Context) (l *Lease, t try, pause time.Duration) {
	c := s.client
	if g, ok := c.rooms.Take(&s.waiter).(*gift); ok {
		if l := c.accept(ctx, g, s.o); l != nil {
			return l, t, 0
		}
	}
	if !c.rooms.First(&s.waiter) {
		return nil, t, forever
	}
	if pause := s.held(); pause > 0 {
		return nil, t, pause
	}
	t.lease = c.newLease(s.keys)
	t.attempt = c.mux.Acquire(t.lease.claim, s.o.ttl, len(s.keys))
	return nil, t, 0
}

// end waits for the outcome of an attempt; began is as in Attempt.Wait.
func (s *seeker) end(ctx context.Context, t try, began time.Time) (l *Lease, pause time.Duration, err error) {
	l, err = s.client.granted(ctx, t.lease, t.attempt, s.o, began)
	if err == nil || !retryable(err) {
		return l, 0, err
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		if s.reason == nil {
			s.reason = err
		}
		return nil, 0, s.cutOff(ctx.Err()) // the end of ctx cut the attempt short: it is no news about the keys
	}
	s.tried(err)
	if s.attempts == s.o.maxAttempts {
		return nil, 0, withCause(ctx, err)
	}
	return nil, s.held(), nil
}

// held is for how long the keys are known to be held, if nobody says otherwise meanwhile.
func (s *seeker) held() time.Duration {
	now := time.Now()
	if hint := s.client.rooms.Hint(&s.waiter); hint.After(now) {
		return hint.Sub(now) // in this process: it will be handed over
	}
	return max(s.allAt.Sub(now), 0)
}

// tried notes that an attempt failed.
func (s *seeker) tried(err error) {
	s.attempts++
	s.reason = err
	pause := s.o.minDelay
	if spread := s.o.maxDelay - s.o.minDelay; spread > 0 {
		pause += rand.N(spread)
	}
	s.allAt = time.Now().Add(pause)
}

// withCause adds ctx's error, if it has ended, to the reason of the last attempt.
func withCause(ctx context.Context, reason error) error {
	if err := ctx.Err(); err != nil && !errors.Is(reason, err) {
		return fmt.Errorf("%w: %w", reason, err)
	}
	return reason
}

// waited tells how long a call waited, and for what.
func waited(start time.Time, keys []string, err error) error {
	more := ""
	if len(keys) > 1 {
		more = fmt.Sprintf(" and %d more", len(keys)-1)
	}
	return fmt.Errorf("waited %v for %.64q%s: %w", time.Since(start).Round(time.Millisecond), keys[0], more, err)
}
