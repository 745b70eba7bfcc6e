package lockpipe

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/multiplex"
)

// AcquireAsync is AcquireAll without a goroutine that waits: it returns at once, and done is called
// once, with the lease or with the error that AcquireAll would have returned. Calls for the same
// keys, in the same order and without a limit of attempts, are granted in the order in which they
// were made, and done is called in the order of the grants, on the goroutines that OnLost is called
// on: it may block, but 64 that do hold up all others. The time of the lease runs while done waits
// for its turn. The caller may change keys as soon as AcquireAsync has returned.
//
// The error of AcquireAsync itself means that done is never called. It is ErrInvalid, ErrClosed,
// ctx's error, or ErrOverloaded while 65,536 calls are pending or wait for their done. A pending
// call takes about a kilobyte, some three where it is the first for its keys, and no goroutine
// unless ctx is of a type of its own.
func (c *Client) AcquireAsync(ctx context.Context, keys []string, done func(*Lease, error),
	opts ...Option,
) error {
	err := c.acquireAsync(ctx, keys, done, opts)
	if err != nil {
		c.meters.failed(callAsync, err, 1)
	}
	return err
}

func (c *Client) acquireAsync(ctx context.Context, keys []string, done func(*Lease, error),
	opts []Option,
) error {
	if done == nil {
		return invalid("done is nil: give the function that takes the lease")
	}
	keys, o, err := c.prepare(ctx, callAsync, slices.Clone(keys), opts)
	if err != nil {
		return err
	}
	if err := c.enter(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		c.leave()
		return errorf("%w", err)
	}
	if c.asyncs.unfinished.Add(1) > maxPending {
		c.asyncs.unfinished.Add(-1)
		c.leave()
		return ErrOverloaded
	}
	o.start = time.Now()
	a := &asyncCall{ctx: ctx, done: done}
	a.init(c, keys, o, a.signal)
	a.waker = multiplex.NewWaker(a.signal)
	if a.room[0] != "" && !c.rooms.Enter(&a.waiter, a.room[:], maxPending) {
		c.asyncs.unfinished.Add(-1)
		c.leave()
		return ErrOverloaded
	}
	if ctx.Done() != nil {
		a.unhook = context.AfterFunc(ctx, a.signal)
	}
	c.asyncs.add(a)
	a.signal() // what came before it was pending is lost
	return nil
}

// asyncCall is a waiting call that no goroutine waits for. Whatever it waits for signals it, and
// then the worker of asyncs takes its next steps, up to where it has to wait again.
type asyncCall struct {
	seeker
	ctx    context.Context
	done   func(*Lease, error)
	unhook func() bool // stops the signal of ctx; nil where that never ends

	// Owned by the worker:
	waker *multiplex.Waker
	try   try         // under way
	timer *time.Timer // of the pause; nil before the first

	queued bool // guarded by asyncs.mu
}

// signal has the worker take the next steps. It does not block.
func (a *asyncCall) signal() { a.client.asyncs.push(a) }

// advance takes all steps that can be taken now.
func (a *asyncCall) advance() {
	for {
		if a.try.attempt == nil {
			if end := a.ended(); end != nil {
				a.finish(nil, a.cutOff(end))
				return
			}
			l, t, pause := a.begin()
			if l != nil {
				a.finish(l, nil)
				return
			}
			if a.try = t; t.attempt == nil {
				a.rest(pause)
				return
			}
		}
		outcome, settled := a.try.attempt.Poll(a.ctx, a.waker)
		if !settled {
			return
		}
		t := a.try
		a.try = try{}
		l, pause, err := a.end(a.ctx, t, outcome)
		if l != nil || err != nil {
			a.finish(l, err)
			return
		}
		if pause > 0 {
			a.rest(pause)
			return
		}
	}
}

// ended is why the call is over before it was granted, or nil.
func (a *asyncCall) ended() error {
	select {
	case <-a.client.closed:
		return ErrClosed
	default:
		return a.ctx.Err()
	}
}

// rest has the call signalled after d. Only the first of those who wait for the same keys has
// anything to do then.
func (a *asyncCall) rest(d time.Duration) {
	switch {
	case a.timer != nil:
		a.timer.Reset(d)
	case d != forever:
		a.timer = time.AfterFunc(d, a.signal)
	}
}

// finish ends the call, and has done called.
func (a *asyncCall) finish(l *Lease, err error) {
	c := a.client
	if a.unhook != nil {
		a.unhook()
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	a.leave(l)
	c.asyncs.remove(a)
	if err != nil && retryable(err) {
		err = waited(a.o.start, a.keys, err)
	}
	if err != nil {
		c.meters.failed(callAsync, err, 1)
	}
	done := a.done
	c.callbacks.push(func() {
		c.asyncs.unfinished.Add(-1)
		done(l, err)
	})
	c.leave()
}

// asyncs are the pending calls of AcquireAsync, and the one goroutine that takes their steps while
// there are any to take: no step waits for anything, so one is enough, and it keeps the order.
type asyncs struct {
	unfinished atomic.Int64 // calls whose done was not called yet

	mu      sync.Mutex // guards all below; a leaf
	pending map[*asyncCall]struct{}
	ready   []*asyncCall // signalled
	working bool
}

func (s *asyncs) add(a *asyncCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == nil {
		s.pending = make(map[*asyncCall]struct{})
	}
	s.pending[a] = struct{}{}
}

func (s *asyncs) remove(a *asyncCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.pending, a); len(s.pending) == 0 {
		s.pending = nil // a map keeps the memory of its largest size
	}
}

// push puts a call in line for the worker, unless it is there already or is over.
func (s *asyncs) push(a *asyncCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, pending := s.pending[a]; a.queued || !pending {
		return
	}
	a.queued = true
	s.ready = append(s.ready, a)
	if !s.working {
		s.working = true
		go s.work()
	}
}

// work takes the steps of calls until none is in line.
func (s *asyncs) work() {
	for some := s.take(); len(some) > 0; some = s.take() {
		for _, a := range some {
			a.advance()
		}
	}
}

// take returns the calls in line, which may be put there again from now on.
func (s *asyncs) take() []*asyncCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	some := s.ready[:0]
	for _, a := range s.ready {
		a.queued = false
		if _, pending := s.pending[a]; pending { // it was not finished since
			some = append(some, a)
		}
	}
	s.ready = nil
	s.working = len(some) > 0
	return some
}

// signal signals all, because the client is being closed.
func (s *asyncs) signal() {
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
