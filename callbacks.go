package lockpipe

import (
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/panjf2000/ants/v2"
)

const (
	// maxCallbacks is the most callbacks that run at the same time: many more than there are cores,
	// because they may wait.
	maxCallbacks = 64
	// maxNotices is the most callbacks that wait: eight megabytes of pointers.
	maxNotices = 1 << 20
)

// callbacks runs the functions of the user, in order, on a pool of goroutines of its own, so that
// nothing else waits for them. The pool is made when it is first needed.
type callbacks struct {
	logger  *slog.Logger
	panics  atomic.Uint64
	dropped atomic.Uint64 // not run, because of maxNotices

	mu      sync.Mutex // guards all below
	pool    *ants.Pool
	waiting []func() // from head on
	head    int
	running int  // goroutines of the pool at work
	closed  bool // the pool is released when nothing is left
}

// run runs f soon, unless too many wait.
func (c *callbacks) run(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting)-c.head >= maxNotices {
		c.dropped.Add(1)
		return
	}
	c.add(f)
}

// push runs f soon, for those that bound their number by themselves.
func (c *callbacks) push(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(f)
}

// add puts f at the end; mu is held.
func (c *callbacks) add(f func()) {
	c.waiting = append(c.waiting, f)
	c.grow()
}

// grow starts one more goroutine if there may be one; mu is held.
func (c *callbacks) grow() {
	if c.running < maxCallbacks && c.start() == nil {
		c.running++
	}
}

// start starts one more goroutine; mu is held. The pool has no limit of its own, so this never
// waits: in a full pool it can miss that a goroutine was ended by its callback, and would wait for
// ever.
func (c *callbacks) start() error {
	if c.pool == nil {
		pool, err := ants.NewPool(-1)
		if err != nil {
			return err
		}
		c.pool = pool
	}
	return c.pool.Submit(c.work)
}

// work runs callbacks until none is waiting.
func (c *callbacks) work() {
	over := false
	defer func() {
		if !over {
			c.replace()
		}
	}()
	for f := c.next(); f != nil; f = c.next() {
		c.guard(f)
	}
	over = true
}

// replace makes up for a goroutine that a callback has ended, as testing.T.FailNow does.
func (c *callbacks) replace() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if c.head < len(c.waiting) {
		c.grow()
	}
	c.rest()
}

// next takes the callback that waits longest, or nil.
func (c *callbacks) next() func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head == len(c.waiting) {
		c.waiting, c.head = nil, 0
		c.running--
		c.rest()
		return nil
	}
	f := c.waiting[c.head]
	c.waiting[c.head] = nil
	if c.head++; c.head > len(c.waiting)/2 { // so that it never outgrows twice of what waits
		rest := copy(c.waiting, c.waiting[c.head:])
		clear(c.waiting[rest:])
		c.waiting, c.head = c.waiting[:rest], 0
	}
	return f
}

// guard runs f, whatever it does.
func (c *callbacks) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			c.panics.Add(1)
			c.logger.Error("lockpipe: a callback panicked", slog.Any("panic", p),
				slog.String("stack", string(debug.Stack())))
		}
	}()
	f()
}

// close lets the goroutines end when nothing waits any more. It waits for none of them.
func (c *callbacks) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.rest()
}

// rest ends the pool if it was closed and nothing is left; mu is held.
func (c *callbacks) rest() {
	if c.closed && c.running == 0 && c.pool != nil {
		c.pool.Release()
		c.pool = nil
	}
}
