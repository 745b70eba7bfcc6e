// Package batch groups what concurrent callers want from one place into few trips to it: group
// commit without a timer. It knows neither Redis nor locks, and nothing of time.
package batch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// ErrOverloaded reports that the backlog is full. The operation was not taken and will not be sent.
var ErrOverloaded = errors.New("lockpipe: too many operations are waiting")

// ErrClosed reports that the pipeline was closed. The operation was not taken and will not be sent.
var ErrClosed = errors.New("batch: pipeline is closed")

// Config says what a Pipeline does with its operations. All of it is required.
type Config[Op, Reply any] struct {
	// Flush makes one trip with all of ops and sets replies[i] for ops[i]; the replies are zero
	// before. It returns when the trip is over, however it ended. Up to Window calls run at the
	// same time. It must not keep the slices.
	Flush func(ops []Op, replies []Reply)
	// Done is told the reply of each operation that was sent, exactly once, on the goroutine of its
	// flush. It may enqueue more, but must not block.
	Done func(op Op, reply Reply)
	// Weight is how heavy an operation is for the other side, at least 1.
	Weight func(op Op) int
	// MaxFlush is the greatest weight of one flush; a single operation may be heavier. No flush
	// starts beside others that have Window times as much already.
	MaxFlush int
	// Window is the most flushes that are under way at the same time.
	Window int
	// Beside is the weight that must wait before a flush starts beside one that is under way;
	// beside two it is twice that, beside three four times. It is asked each time and must not
	// block.
	OverlapAt func() int
	// Limit is the most operations that wait, follow-ups not counted: more get ErrOverloaded.
	Limit int
}

// Pipeline carries operations in flushes. An operation that finds nothing under way leaves at once;
// those that come while a flush is under way wait and leave together in the next one. So an idle
// pipeline adds no delay and a busy one fills its flushes by itself, and nothing has to be tuned by
// time.
//
// Invariants:
//
//  1. An operation that Enqueue took is either sent and answered by exactly one call of Done, or
//     cancelled before it was sent.
//  2. While operations wait, at least one flush is under way: there is no lost wake-up, because "is
//     a drain running" and "is there work" are decided under the same lock.
//  3. At most Window flushes are under way, each on a goroutine that ends when nothing waits: an
//     idle pipeline has none.
//  4. Flushes that are under way at the same time are in no order. Who needs an order between two
//     operations enqueues the second after the first is done.
//
// Outline: Enqueue appends to the backlog and may start drain; drain takes what waits, marks it
// sent, calls Flush, calls Done for each, and starts over until nothing waits.
//
// What lost: a timer that waits for more operations to come (it delays the idle case, and is worse
// than nothing under load: what is under way is the better clock), and a channel of operations (a
// lock and a wake-up for each operation instead of each flush).
//
// All methods are safe for concurrent use.
type Pipeline[Op, Reply any] struct {
	cfg Config[Op, Reply]

	mu       sync.Mutex            // guards all below
	backlog  []*Call[Op]           // what waits, from head on
	head     int                   // where the backlog begins
	weight   int                   // of the backlog
	inFlight int                   // weight of the flushes under way
	limited  int                   // how many of the backlog count towards Limit
	running  int                   // drains under way
	closed   bool                  // Enqueue refuses
	idle     chan struct{}         // closed by the last drain after Close; nil before Close
	freeList []*scratch[Op, Reply] // memory of drains that ended, at most Window

	cancelled atomic.Int64 // how many of the backlog were cancelled
}

// trip is the memory of one drain, owned by its goroutine while it runs.
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

// Enqueue takes c for the next flush. An error, ErrOverloaded or ErrClosed, means that it was not
// taken. A call that was answered may be enqueued again; one that waits, is under way or was
// cancelled may not.
func (p *Pipeline[Op, Reply]) Enqueue(c *Call[Op]) error { return p.enqueue(c, false) }

// EnqueueFollowUp is Enqueue for an operation that changes or undoes one that was taken before:
// those bound it already, so it is never refused, neither for the number that wait nor after Close.
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
	c.state.Store(uint32(Queued))
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

// compactFrom is how many cancelled operations are worth a look at the whole backlog.
const compactFrom = 1024

// compact takes the cancelled operations out of the backlog: where a flush hangs, they must not
// pile up behind it. mu is held.
func (p *Pipeline[Op, Reply]) compact() {
	rest := p.backlog[:0]
	for _, c := range p.backlog[p.head:] {
		if Stage(c.state.Load()) != Cancelled {
			rest = append(rest, c)
			continue
		}
		p.drop(c)
	}
	clear(p.backlog[len(rest):])
	p.backlog, p.head = rest, 0
}

// drop takes a cancelled operation, which leaves the backlog, off the books; mu is held.
func (p *Pipeline[Op, Reply]) drop(c *Call[Op]) {
	p.cancelled.Add(-1)
	p.weight -= p.cfg.Weight(c.Op)
	if c.limited {
		p.limited--
	}
}

// Cancel stops the call if it still waits, and tells what became of it: Cancelled if it was stopped
// now or before; Sent if it is too late, and Done will be called with an answer that the canceller
// may have to undo; Answered if Done has it already.
func (p *Pipeline[Op, Reply]) Cancel(c *Call[Op]) Stage {
	if c.state.CompareAndSwap(uint32(Queued), uint32(Cancelled)) {
		p.cancelled.Add(1)
		return Cancelled
	}
	return Stage(c.state.Load())
}

// refusal tells why nothing is taken; mu is held.
func (p *Pipeline[Op, Reply]) admissionErr() error {
	switch {
	case p.closed:
		return ErrClosed
	case p.limited >= p.cfg.Limit:
		return ErrOverloaded
	}
	return nil
}

// drain carries flush after flush until nothing waits.
func (p *Pipeline[Op, Reply]) drain(t *scratch[Op, Reply]) {
	for p.take(t) {
		p.claimCalls(t)
		if len(t.ops) == 0 {
			continue
		}
		p.cfg.Flush(t.ops, t.replies)
		for i, c := range t.calls {
			c.state.Store(uint32(Answered))
			p.cfg.Done(t.ops[i], t.replies[i])
		}
		t.clear()
	}
}

// mostAloft is the weight at which no further flush starts beside those under way.
func (p *Pipeline[Op, Reply]) maxInFlight() int { return p.cfg.Window * p.cfg.MaxFlush }

// take moves what waits into t, or ends the drain where nothing does.
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
		// Move the rest down, so that the slice never outgrows twice of what waits.
		rest := copy(p.backlog, p.backlog[p.head:])
		clear(p.backlog[rest:])
		p.backlog, p.head = p.backlog[:rest], 0
	}
	return true
}

// portion is the part of the backlog that the next flush takes; mu is held.
func (p *Pipeline[Op, Reply]) nextBatch() []*Call[Op] {
	n, total := 0, 0
	for _, c := range p.backlog[p.head:] {
		weight := p.cfg.Weight(c.Op)
		if n > 0 && total+weight > p.cfg.MaxFlush || p.inFlight > 0 &&
			p.inFlight+total+weight > p.maxInFlight() {
			break // also none at all, beside flushes under way: the next of them that ends takes it
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

// trip returns memory for a drain; mu is held.
func (p *Pipeline[Op, Reply]) newScratch() *scratch[Op, Reply] {
	last := len(p.freeList) - 1
	if last < 0 {
		return new(scratch[Op, Reply])
	}
	t := p.freeList[last]
	p.freeList = p.freeList[:last]
	return t
}

// mark claims the calls for this flush and leaves out those that were cancelled.
func (p *Pipeline[Op, Reply]) claimCalls(t *scratch[Op, Reply]) {
	kept := t.calls[:0]
	for _, c := range t.calls {
		if !c.state.CompareAndSwap(uint32(Queued), uint32(Sent)) {
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

// clear drops what the memory points to, so that a drained pipeline keeps nothing alive.
func (t *scratch[Op, Reply]) clear() {
	clear(t.calls)
	clear(t.ops)
	clear(t.replies)
	t.calls, t.ops, t.replies = t.calls[:0], t.ops[:0], t.replies[:0]
}

// Close refuses operations from now on and returns when those that were taken, and their
// follow-ups, are answered, or with ctx's error when ctx ends; the rest goes on then, and a further
// Close may wait for it again.
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

// Waiting returns how many operations wait for a flush, cancelled ones included until the next
// flush leaves them out.
func (p *Pipeline[Op, Reply]) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.backlog) - p.head
}
