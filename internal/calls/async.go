package calls

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/outcomes"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Done is notified how a call of AcquireAsync ended: with a lease or a failure.
type Done interface {
	Done(l *locker.Lease, f *locker.Failure)
}

// AcquireAsync is Acquire without a goroutine that waits: it returns at once, and done is notified
// later. If it returns a failure, done is never notified. It keeps keys.
func (c *Calls) AcquireAsync(ctx context.Context, keys []string, o *locker.Options,
	done Done,
) *locker.Failure {
	if f := c.begin(ctx, o); f != nil {
		return f
	}
	f := c.startAsync(ctx, keys, o, done)
	if f != nil {
		c.locker.End()
	}
	return c.locker.Count(o.Kind, f)
}

// startAsync is AcquireAsync for a call that was counted in.
func (c *Calls) startAsync(ctx context.Context, keys []string, o *locker.Options,
	done Done,
) *locker.Failure {
	if c.asyncs.outstanding.Add(1) > locker.MaxPending {
		c.asyncs.outstanding.Add(-1)
		return locker.Overloaded()
	}
	a := &asyncCall{calls: c, ctx: ctx, done: done}
	wake := a.signal
	waker := multiplex.NewWaker(wake)
	if o.MaxAttempts > 0 {
		a.call = &limitedCall{calls: c, keys: keys, opts: *o, waker: waker}
	} else {
		s := newWaitingCall(ctx, c, keys, *o, wake)
		s.waker, a.call = waker, s
		if !s.enter() {
			c.asyncs.outstanding.Add(-1)
			return locker.Overloaded()
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
	calls  *Calls
	call   pendingCall
	ctx    context.Context
	done   Done
	unhook func() bool // stops the signal of ctx; nil if ctx never ends
	timer  *time.Timer // of the delay, owned by the worker; nil before the first one
	queued bool        // guarded by asyncCalls.mu
}

// signal has the worker take the next steps. It does not block.
func (a *asyncCall) signal() { a.calls.asyncs.enqueue(a) }

// advance takes all steps that can be taken now.
func (a *asyncCall) advance() {
	l, delay, f := a.call.advance(a.ctx)
	if l != nil || f != nil {
		a.finish(l, f)
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

// finish ends the call, and has done notified.
func (a *asyncCall) finish(l *locker.Lease, f *locker.Failure) {
	c := a.calls
	if a.unhook != nil {
		a.unhook()
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	a.call.leave(l)
	c.asyncs.remove(a)
	c.locker.Count(outcomes.Async, f)
	done := a.done
	c.asyncs.runDone(func() {
		c.asyncs.outstanding.Add(-1)
		done.Done(l, f)
	})
	c.locker.End()
}

// asyncCalls are the pending calls of AcquireAsync. One goroutine, the worker, takes their steps
// while there are any to take. No step waits for anything, so one is enough, and it keeps the
// order.
type asyncCalls struct {
	runDone     func(f func()) // of New; set once
	outstanding atomic.Int64   // calls whose done was not notified yet

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
