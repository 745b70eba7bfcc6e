package lockpipe

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/outcomes"
	"github.com/lockpipe/lockpipe/multiplex"
)

// AcquireAsync is AcquireAll without a goroutine that waits. It returns at once. The Client calls
// done once, with the lease or with the error that AcquireAll would have returned. Calls for the
// same keys, in the same order and without a limit of attempts, are granted in the order in which
// they were made. The Client starts the done functions in the order of the grants, on the
// goroutines that run OnLost. 64 run at the same time; if all block, the others wait. The lease's
// time runs while its done waits. The caller may change keys when AcquireAsync has returned.
//
// If AcquireAsync itself returns an error, done is never called. The error is ErrInvalid,
// ErrClosed, ctx's error, or ErrOverloaded while 65,536 calls are pending or wait for their done. A
// pending call takes about a kilobyte, and some three if it is the first for its keys. It takes no
// goroutine, unless the type of ctx is not one of package context.
func (c *Client) AcquireAsync(ctx context.Context, keys []string, done func(*Lease, error),
	opts ...Option,
) error {
	err := c.acquireAsync(ctx, keys, done, opts)
	if err != nil {
		c.outcomes.failed(outcomes.Async, err, 1)
	}
	return err
}

func (c *Client) acquireAsync(ctx context.Context, keys []string, done func(*Lease, error),
	opts []Option,
) error {
	if done == nil {
		return invalid("done is nil: give the function that takes the lease")
	}
	keys, o, err := c.validateCall(ctx, outcomes.Async, slices.Clone(keys), opts)
	if err != nil {
		return err
	}
	if err := c.beginCall(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		c.endCall()
		return errorf("%w", err)
	}
	if c.asyncs.outstanding.Add(1) > maxPending {
		c.asyncs.outstanding.Add(-1)
		c.endCall()
		return ErrOverloaded
	}
	o.start = time.Now()
	a := &asyncCall{client: c, ctx: ctx, done: done}
	wake := a.signal
	waker := multiplex.NewWaker(wake)
	if o.maxAttempts > 0 {
		a.call = &limitedCall{client: c, keys: keys, opts: o, waker: waker}
	} else {
		s := newWaitingCall(ctx, c, keys, o, wake)
		s.waker, a.call = waker, s
		if !s.enter() {
			c.asyncs.outstanding.Add(-1)
			c.endCall()
			return ErrOverloaded
		}
	}
	if ctx.Done() != nil {
		a.unhook = context.AfterFunc(ctx, wake)
	}
	c.asyncs.add(a)
	wake() // signals that came before it was pending are lost
	return nil
}

// asyncCall is a call without a goroutine that waits. Each event that it waits for signals it. Then
// the worker of asyncCalls takes its next steps, until the call must wait again.
type asyncCall struct {
	client *Client
	call   pendingCall
	ctx    context.Context
	done   func(*Lease, error)
	unhook func() bool // stops the signal of ctx; nil if ctx never ends
	timer  *time.Timer // of the delay, owned by the worker; nil before the first one
	queued bool        // guarded by asyncCalls.mu
}

// signal has the worker take the next steps. It does not block.
func (a *asyncCall) signal() { a.client.asyncs.enqueue(a) }

// advance takes all steps that can be taken now.
func (a *asyncCall) advance() {
	l, delay, err := a.call.advance(a.ctx)
	if l != nil || err != nil {
		a.finish(l, err)
		return
	}
	a.wakeAfter(delay)
}

// wakeAfter signals the call after d. Only the first of the calls that wait for the same keys has
// anything to do then.
func (a *asyncCall) wakeAfter(d time.Duration) {
	switch {
	case a.timer != nil:
		a.timer.Reset(d)
	case d != noTimer:
		a.timer = time.AfterFunc(d, a.signal)
	}
}

// finish ends the call, and schedules done.
func (a *asyncCall) finish(l *Lease, err error) {
	c := a.client
	if a.unhook != nil {
		a.unhook()
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	a.call.leave(l)
	c.asyncs.remove(a)
	if err != nil {
		c.outcomes.failed(outcomes.Async, err, 1)
	}
	done := a.done
	c.callbacks.Run(func() {
		c.asyncs.outstanding.Add(-1)
		done(l, err)
	})
	c.endCall()
}

// asyncCalls are the pending calls of AcquireAsync. One goroutine, the worker, takes their steps
// while there are any to take. No step waits for anything, so one is enough, and it keeps the
// order.
type asyncCalls struct {
	outstanding atomic.Int64 // calls whose done has not run yet

	mu      sync.Mutex // guards all below; a leaf
	pending map[*asyncCall]struct{}
	ready   []*asyncCall // signalled
	working bool
}

func (s *asyncCalls) add(a *asyncCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == nil {
		s.pending = make(map[*asyncCall]struct{})
	}
	s.pending[a] = struct{}{}
}

func (s *asyncCalls) remove(a *asyncCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.pending, a); len(s.pending) == 0 {
		s.pending = nil // a map keeps the memory of its largest size
	}
}

// enqueue puts a call in line for the worker, unless it is there already or is over.
func (s *asyncCalls) enqueue(a *asyncCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, pending := s.pending[a]; a.queued || !pending {
		return
	}
	a.queued = true
	s.ready = append(s.ready, a)
	if !s.working {
		s.working = true
		go s.run()
	}
}

// run takes the steps of calls until none is in line.
func (s *asyncCalls) run() {
	for some := s.dequeue(); len(some) > 0; some = s.dequeue() {
		for _, a := range some {
			a.advance()
		}
	}
}

// dequeue returns the calls in line, which may be put there again from now on.
func (s *asyncCalls) dequeue() []*asyncCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	some := s.ready[:0]
	for _, a := range s.ready {
		a.queued = false
		if _, pending := s.pending[a]; pending { // it has not ended since
			some = append(some, a)
		}
	}
	s.ready = nil
	s.working = len(some) > 0
	return some
}

// signalAll signals all calls, because the client is being closed.
func (s *asyncCalls) signalAll() {
	s.mu.Lock()
	all := make([]*asyncCall, 0, len(s.pending))
	for a := range s.pending {
		all = append(all, a)
	}
	s.mu.Unlock()
	for _, a := range all {
		a.signal()
	}
}
