// Package callbacks runs the functions of the user: OnLost, and the done functions of
// AcquireAsync. They may block, panic, or end their goroutine as testing.T.FailNow does. Nothing
// else of the client may have to wait for them or end with them. It runs the calls of AcquireAsync
// too.
//
// A Pool starts the functions in the order in which it gets them. At most 64 run at the same time,
// and the others queue. Package ants keeps the goroutines: it starts them, uses them again and ends
// idle ones. The Pool counts what runs, and each function that ends starts the next one, also if it
// ends its goroutine. A function runs until its panic is logged, because the logger may block too.
//
// The pool of ants has no limit of its own. With a limit, it can miss that a function has ended its
// goroutine, once in some hundred thousand times, and then nothing is started any more.
package callbacks

import (
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/panjf2000/ants/v2"
)

const (
	// maxRunning is how many functions run at the same time at most: many more than there are
	// cores, because they may wait.
	maxRunning = 64
	// maxQueued is how long the queue may be for TryRun: eight megabytes of pointers.
	maxQueued = 1 << 20
)

// Pool runs functions on goroutines of its own. All methods are safe for concurrent use, and none
// of them blocks.
type Pool struct {
	logger  *slog.Logger
	workers func() *ants.Pool // made by the first call
	panics  atomic.Uint64
	dropped atomic.Uint64

	mu      sync.Mutex // guards all below
	queue   []func()
	running int // functions of TryRun and Run
	losses  losses
}

// New returns a Pool that logs panics. Its first function starts two goroutines that look after
// those of the functions.
func New(logger *slog.Logger) *Pool {
	return &Pool{logger: logger, workers: sync.OnceValue(func() *ants.Pool {
		// The only error is about a wrong option.
		p, _ := ants.NewPool(-1, ants.WithPanicHandler(func(reason any) { panic(reason) }))
		return p
	})}
}

// Panics returns how many functions have panicked.
func (p *Pool) Panics() uint64 { return p.panics.Load() }

// Dropped returns how many functions TryRun has dropped.
func (p *Pool) Dropped() uint64 { return p.dropped.Load() }

// TryRun runs f soon, or drops it if too many functions are in the queue.
func (p *Pool) TryRun(f func()) { p.run(f, maxQueued) }

// Run runs f soon. The caller bounds how many there are.
func (p *Pool) Run(f func()) { p.run(f, math.MaxInt) }

// Go runs f at once, whatever the functions of users do. The caller bounds how many there are. If f
// panics, the program ends.
func (p *Pool) Go(f func()) {
	if p.workers().Submit(f) != nil { // after Close
		go f()
	}
}

// Close lets each goroutine end when its function ends. Functions that are in the queue, or come
// later, still run.
func (p *Pool) Close() {
	p.mu.Lock()
	unlogged := p.losses.timer != nil && p.losses.timer.Stop()
	p.mu.Unlock()
	if unlogged {
		p.TryRun(p.logLosses)
	}
	p.workers().Release()
}

// run starts f, puts it into the queue, or drops it if there are so many.
func (p *Pool) run(f func(), most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.queue) >= most:
		p.dropped.Add(1)
	case p.running == maxRunning:
		p.queue = append(p.queue, f)
	default:
		p.running++
		p.Go(func() { p.call(f) })
	}
}

// call calls a function. It starts the next function of the queue even if f does not return.
func (p *Pool) call(f func()) {
	defer p.next()
	defer p.logPanic()
	f()
}

// logPanic counts and logs a panic, and ends it.
func (p *Pool) logPanic() {
	if reason := recover(); reason != nil {
		p.panics.Add(1)
		p.logger.Error("lockpipe: a callback panicked", slog.Any("panic", reason),
			slog.String("stack", string(debug.Stack())))
	}
}

// next starts the next function of the queue in place of one that has ended.
func (p *Pool) next() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		p.queue = nil
		p.running--
		return
	}
	f := p.queue[0]
	p.queue[0] = nil
	p.queue = p.queue[1:] // append moves it into a new slice now and then
	p.Go(func() { p.call(f) })
}
