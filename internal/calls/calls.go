// Package calls has the acquiring calls that wait until they are granted.
//
// A waitingCall takes its next step whenever something wakes it, on the goroutine that waits.
// Package keyqueue decides whose turn it is in this process, package line whose turn it is
// of all processes, package wait when a call asks which nodes, and package locker asks them.
// AcquireAny is above that: it looks which keys are free, and has package locker take them.
package calls

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/callbacks"
	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/wait"
)

// Calls are the waiting calls of one client. All methods are safe for concurrent use.
type Calls struct {
	locker *locker.Locker  // set once
	run    *callbacks.Pool // calls of AcquireAsync, and their functions
	asyncs atomic.Int64    // calls of AcquireAsync whose function was not started yet

	mu         sync.Mutex       // guards pools, and the calls of each; a leaf
	pools      map[string]*pool // of the calls of AcquireAny that are under way, by their keys
	anyWaiting atomic.Int64     // those that are in the line of their pool
}

// New returns no calls yet. run has the goroutines of AcquireAsync.
func New(k *locker.Locker, run *callbacks.Pool) *Calls {
	return &Calls{locker: k, run: run, pools: make(map[string]*pool)}
}

// Waiting returns how many calls queue in the process for their keys.
func (c *Calls) Waiting() int { return c.locker.Queue.Waiting() + int(c.anyWaiting.Load()) }

// PendingAsync returns how many calls of AcquireAsync are pending, or wait for their function.
func (c *Calls) PendingAsync() int { return int(c.asyncs.Load()) }

// Acquire waits until all keys are granted.
func (c *Calls) Acquire(ctx context.Context, keys []string, o *locker.Options) (*locker.Lease,
	*locker.Failure,
) {
	o.Start = time.Now()
	return c.locker.Call(ctx, o, func() (*locker.Lease, *locker.Failure) {
		return c.acquire(ctx, keys, o)
	})
}

func (c *Calls) acquire(ctx context.Context, keys []string, o *locker.Options) (*locker.Lease,
	*locker.Failure,
) {
	if o.MaxAttempts > 0 {
		try := func() (*locker.Lease, *locker.Failure) { return c.locker.Try(ctx, keys, o) }
		return c.repeat(ctx, keys, o, nil, nil, try)
	}
	var failed *locker.Failure
	if !c.hasContention(keys) {
		l, f := c.locker.Try(ctx, keys, o)
		if f == nil || !f.Retryable() {
			return l, f
		}
		failed = f
	}
	s := newWaitingCall(ctx, c, keys, o)
	if failed != nil {
		s.recordFailure(failed)
	}
	if !s.enter() {
		return nil, locker.Overloaded()
	}
	return s.wait()
}

// Pause waits for the delay after a failure, or until ctx or the client ends: then it returns why.
// last is nil if there was no attempt.
func (c *Calls) Pause(ctx context.Context, o *locker.Options, last *locker.Failure) error {
	delay := o.RetryDelay()
	if !last.IsHeld() {
		delay = wait.NoQuorumDelay(delay)
	}
	return c.locker.Sleep(ctx, delay)
}

// repeat is for a call that does not queue for its keys. It makes attempts until one is granted, at
// most o.MaxAttempts if that is set, and pauses before each further one. A nil pause is Pause. last
// is why the call has to wait before the first attempt; nil: it has not.
func (c *Calls) repeat(ctx context.Context, keys []string, o *locker.Options, last *locker.Failure,
	pause func(last *locker.Failure) (end error), attempt func() (*locker.Lease, *locker.Failure),
) (*locker.Lease, *locker.Failure) {
	if pause == nil {
		pause = func(last *locker.Failure) error { return c.Pause(ctx, o, last) }
	}
	for made := 1; ; made++ {
		if last != nil {
			if end := pause(last); end != nil {
				return nil, last.EndedBy(end).AfterWaiting(keys, o.Start)
			}
		}
		l, f := attempt()
		switch {
		case f == nil:
			return l, nil
		case last != nil && f.CutShort(ctx): // f says nothing new about the keys
			return nil, last.EndedBy(ctx.Err()).AfterWaiting(keys, o.Start)
		case !f.Retryable():
			return nil, f
		case made == o.MaxAttempts:
			if end := ctx.Err(); end != nil {
				f = f.EndedBy(end)
			}
			return nil, f.AfterWaiting(keys, o.Start)
		}
		last = f
	}
}

// wakeUp wakes who receives from a channel of capacity 1. It does not block.
func wakeUp(sleeper chan<- struct{}) {
	select {
	case sleeper <- struct{}{}:
	default:
	}
}

// hasContention reports whether other calls of this process want one of these keys, or calls of
// another process did not long ago.
func (c *Calls) hasContention(keys []string) bool {
	return c.locker.Queue.Knows(keys) || c.locker.Lines.Contended(keys, time.Now()) != ""
}
