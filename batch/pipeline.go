// Package batch groups the operations of concurrent callers on one place into few flushes: group
// commit without a timer. It knows neither Redis nor locks nor time.
package batch

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
)

// ErrOverloaded reports that the backlog is full. The operation was not taken and will not be sent.
var ErrOverloaded = errors.New("lockpipe: too many operations are waiting")

// ErrClosed reports that the pipeline was closed. The operation was not taken and will not be sent.
var ErrClosed = errors.New("batch: pipeline is closed")

// Config says what a Pipeline does with its operations. All fields are required.
type Config[Op, Reply any] struct {
	// Flush makes one trip with all of ops and sets replies[i] for ops[i]. The replies are zero
	// before. It returns when the trip is over, however it ended. Up to Window calls run at the
	// same time. It must not keep the slices.
	Flush func(ops []Op, replies []Reply)
	// Done takes the reply of an operation. It is called exactly once for each operation that was
	// sent, on the goroutine of its flush. It may enqueue more, but must not block.
	Done func(op Op, reply Reply)
	// Weight is how heavy an operation is for the other side, at least 1.
	Weight func(op Op) int
	// MaxFlush is the greatest weight of one flush. A single operation may be heavier. No flush
	// starts while those under way together have Window times as much already.
	MaxFlush int
	// Window is the most flushes that are under way at the same time.
	Window int
	// OverlapAt returns the weight that must wait before a second flush starts while one is under
	// way. A third flush needs twice that weight, a fourth one four times, so that a crowd does not
	// fill the window with small flushes. It is called each time and must not block.
	OverlapAt func() int
	// Limit is the most operations that wait, not counting follow-ups. More get ErrOverloaded.
	Limit int
}

// Pipeline carries operations in flushes. An operation that finds nothing under way leaves at once.
// Operations that come while a flush is under way wait, and leave together in the next one. So an
// idle pipeline adds no delay, a busy one fills its flushes, and no time has to be tuned.
//
// Invariants:
//
//  1. An operation that Enqueue took is either sent and answered by exactly one call of Done, or
//     cancelled before it was sent.
//  2. While operations wait, at least one flush is under way. No wake-up is lost, because "is a
//     drain running" and "is there work" are decided under the same lock.
//  3. At most Window flushes are under way. Each runs on a goroutine that ends when nothing waits,
//     so an idle pipeline has none.
//  4. Flushes that are under way at the same time are in no order. A caller that needs an order
//     between two operations enqueues the second after the first is done.
//
// Outline: Enqueue appends to the backlog and may start drain. drain takes the next batch, claims
// its calls, calls Flush, calls Done for each, and starts over until nothing waits.
//
// What lost:
//
//   - A timer that waits for more operations. It delays the idle case. Under load it is worse than
//     none, because the flush under way is the better clock.
//   - A channel of operations: a lock and a wake-up for each operation, not for each flush.
//
// All methods are safe for concurrent use.
type Pipeline[Op, Reply any] struct {
	cfg Config[Op, Reply]

	mu       sync.Mutex            // guards all below
	backlog  []*Call[Op]           // the operations that wait, from head on
	head     int                   // index of the first one
	weight   int                   // of the backlog
	inFlight int                   // weight of the flushes under way
	limited  int                   // how many of the backlog count towards Limit
	running  int                   // drains under way
	closed   bool                  // Enqueue refuses
	idle     chan struct{}         // closed by the last drain after Close; nil before Close
	freeList []*scratch[Op, Reply] // memory of drains that ended, at most Window

	cancelled atomic.Int64 // how many of the backlog were cancelled
}

// scratch is the memory of one drain, owned by its goroutine while it runs.
type scratch[Op, Reply any] struct {
	weight  int // guarded by the pipeline's mu
	calls   []*Call[Op]
	ops     []Op
	replies []Reply
}

// New returns a pipeline without goroutines: the first operation starts one.
func New[Op, Reply any](cfg Config[Op, Reply]) *Pipeline[Op, Reply] {
	return &Pipeline[Op, Reply]{cfg: cfg}
}

// Enqueue takes c for the next flush. If it returns ErrOverloaded or ErrClosed, c was not taken. A
// call that was answered may be enqueued again. A call that waits, is under way or was cancelled
// may not.
func (p *Pipeline[Op, Reply]) Enqueue(c *Call[Op]) error { return p.enqueue(c, false) }

// EnqueueFollowUp is Enqueue for an operation that changes or undoes one that was taken before.
// Their number bounds that of follow-ups, so a follow-up is always taken: also beyond the Limit,
// and after Close.
func (p *Pipeline[Op, Reply]) EnqueueFollowUp(c *Call[Op]) { _ = p.enqueue(c, true) }

func (p *Pipeline[Op, Reply]) enqueue(c *Call[Op], followUp bool) error {
	p.mu.Lock()
	if n := p.cancelled.Load(); n > compactFrom && int(n) > (len(p.backlog)-p.head)/2 {
		p.compact()
	}
	if !followUp {
		if err := p.admissionErr(); err != nil {
			p.mu.Unlock()
			return err
		}
		p.limited++
	}
	c.limited = !followUp
	c.state.Store(queued)
	p.backlog = append(p.backlog, c)
	p.weight += p.cfg.Weight(c.Op)
	start := p.running == 0 || (p.running < p.cfg.Window &&
		p.weight >= p.cfg.OverlapAt()<<(p.running-1) && p.inFlight < p.maxInFlight())
	if !start {
		p.mu.Unlock()
		return nil
	}
	p.running++
	t := p.newScratch()
	p.mu.Unlock()
	go p.drain(t)
	return nil
}

// compactFrom is how many cancelled operations are worth a pass over the whole backlog.
const compactFrom = 1024

// compact takes the cancelled operations out of the backlog. If a flush hangs, they must not pile
// up behind it. mu is held.
func (p *Pipeline[Op, Reply]) compact() {
	rest := p.backlog[:0]
	for _, c := range p.backlog[p.head:] {
		if c.state.Load() != cancelled {
			rest = append(rest, c)
			continue
		}
		p.drop(c)
	}
	clear(p.backlog[len(rest):])
	p.backlog, p.head = rest, 0
}

// drop stops counting a cancelled operation that leaves the backlog. mu is held.
func (p *Pipeline[Op, Reply]) drop(c *Call[Op]) {
	p.cancelled.Add(-1)
	p.weight -= p.cfg.Weight(c.Op)
	if c.limited {
		p.limited--
	}
}

// Cancel stops the call if it still waits. It returns true if the call was stopped, now or before:
// then nothing was sent, and Done is never called for it. It returns false if the call was sent.
// Then Done is called, or was called, with a reply that the canceller may have to undo.
func (p *Pipeline[Op, Reply]) Cancel(c *Call[Op]) bool {
	if c.state.CompareAndSwap(queued, cancelled) {
		p.cancelled.Add(1)
		return true
	}
	return c.state.Load() == cancelled
}

// admissionErr returns why no operation is taken now; nil if one is. mu is held.
func (p *Pipeline[Op, Reply]) admissionErr() error {
	switch {
	case p.closed:
		return ErrClosed
	case p.limited >= p.cfg.Limit:
		return ErrOverloaded
	}
	return nil
}

// yields is how often a drain lets other goroutines run before it takes the backlog. The callers
// that the last flush woke come first, and their next operations are part of this one. It takes no
// time when nothing else can run.
const yields = 2

// drain makes flush after flush until nothing waits.
func (p *Pipeline[Op, Reply]) drain(t *scratch[Op, Reply]) {
	for {
		for range yields {
			runtime.Gosched()
		}
		if !p.take(t) {
			return
		}
		p.claimCalls(t)
		if len(t.ops) == 0 {
			continue
		}
		p.cfg.Flush(t.ops, t.replies)
		for i, c := range t.calls {
			c.state.Store(answered)
			p.cfg.Done(t.ops[i], t.replies[i])
		}
		t.clear()
	}
}

// maxInFlight is the weight of the flushes under way at which no further one starts.
func (p *Pipeline[Op, Reply]) maxInFlight() int { return p.cfg.Window * p.cfg.MaxFlush }

// take moves the next batch into t. It returns false and ends the drain if there is none.
func (p *Pipeline[Op, Reply]) take(t *scratch[Op, Reply]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight -= t.weight
	from := p.nextBatch()
	t.weight = 0
	for _, c := range from {
		t.weight += p.cfg.Weight(c.Op)
	}
	p.inFlight += t.weight
	if len(from) == 0 {
		p.running--
		p.freeList = append(p.freeList, t)
		if p.running == 0 && p.idle != nil {
			close(p.idle)
			p.idle = nil
		}
		return false
	}
	t.calls = append(t.calls[:0], from...)
	clear(from)
	p.head += len(from)
	if p.head > len(p.backlog)/2 {
		// Move the others down, so that the slice never outgrows twice the number that waits.
		rest := copy(p.backlog, p.backlog[p.head:])
		clear(p.backlog[rest:])
		p.backlog, p.head = p.backlog[:rest], 0
	}
	return true
}

// nextBatch returns the part of the backlog that the next flush takes. mu is held.
func (p *Pipeline[Op, Reply]) nextBatch() []*Call[Op] {
	n, total := 0, 0
	for _, c := range p.backlog[p.head:] {
		weight := p.cfg.Weight(c.Op)
		if n > 0 && total+weight > p.cfg.MaxFlush || p.inFlight > 0 &&
			p.inFlight+total+weight > p.maxInFlight() {
			break // maybe with none at all: then the next flush that ends takes it
		}
		if c.limited {
			p.limited--
		}
		total += weight
		n++
	}
	p.weight -= total
	return p.backlog[p.head : p.head+n]
}

// newScratch returns memory for a drain. mu is held.
func (p *Pipeline[Op, Reply]) newScratch() *scratch[Op, Reply] {
	last := len(p.freeList) - 1
	if last < 0 {
		return new(scratch[Op, Reply])
	}
	t := p.freeList[last]
	p.freeList = p.freeList[:last]
	return t
}

// claimCalls marks the calls as sent, and leaves out those that were cancelled.
func (p *Pipeline[Op, Reply]) claimCalls(t *scratch[Op, Reply]) {
	kept := t.calls[:0]
	for _, c := range t.calls {
		if !c.state.CompareAndSwap(queued, sent) {
			p.cancelled.Add(-1)
			continue
		}
		kept = append(kept, c)
		t.ops = append(t.ops, c.Op)
	}
	clear(t.calls[len(kept):])
	t.calls = kept
	t.replies = append(t.replies, make([]Reply, len(kept))...)
}

// clear drops the pointers in the memory, so that a drained pipeline keeps nothing alive.
func (t *scratch[Op, Reply]) clear() {
	clear(t.calls)
	clear(t.ops)
	clear(t.replies)
	t.calls, t.ops, t.replies = t.calls[:0], t.ops[:0], t.replies[:0]
}

// Close refuses operations from now on. It returns nil when all that were taken, and their
// follow-ups, are answered. It returns ctx's error when ctx ends first. The flushes continue then,
// and a further Close may wait for them again.
func (p *Pipeline[Op, Reply]) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	if p.running == 0 {
		p.mu.Unlock()
		return nil
	}
	if p.idle == nil {
		p.idle = make(chan struct{})
	}
	idle := p.idle
	p.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Waiting returns how many operations wait for a flush. Cancelled ones count until the next flush
// leaves them out.
func (p *Pipeline[Op, Reply]) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.backlog) - p.head
}
