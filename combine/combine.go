// Package combine runs calls that want overlapping keys together, under one lease. It is for work
// on hot keys: one lease, one look and one write serve many orders of one product. A lease for each
// order would serve them one after the other.
//
// How a batch forms: there is no timer. A call whose keys nobody uses starts a batch at once.
// Calls that come while a batch with one of their keys is under way wait. When that batch has
// ended, the oldest of them starts the next one. In the order of arrival each waiting call that
// shares a key with the batch so far joins it. A call that shares no key with a batch under way
// never waits for it. A waiting call may be passed by younger calls, which want other keys too.
// When younger calls have taken 64 of its keys first, no younger call takes one any more.
//
// Bounds: a batch has at most MaxItems calls, and at most as many keys as a call of the Client may
// have. At most 65,536 calls are pending. Above that Do returns lockpipe.ErrOverloaded at once.
// Each batch has a goroutine, and an idle Combiner has none.
//
// The lease: the Client takes one for all keys of the batch. The wait lasts as long as one of the
// callers waits. If another process has some of the keys, only calls that want these wait for them.
// The other calls of the batch run without them. Each process combines its own callers, and the
// lease goes from one process to the next.
//
// What a caller gets: its result, by its place among the items. An error of the lease (then nothing
// ran) or of run goes to all callers of the batch, and so does a panic of run. If one item fails,
// put that into its result, and not into the error of run. A caller whose ctx ends before run has
// begun leaves, and its item is not in the batch. After that Do waits for the result, so that no
// outcome is unknown. If the lease ended while run worked, Do returns the result and the error:
// what run did last was not protected. Client.Close cancels the context of run, and calls that wait
// return lockpipe.ErrClosed.
//
// If run calls Do of the same Combiner with a key of its own batch, it waits for itself, until its
// context ends. So never do that.
package combine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/prefix"
)

const (
	defaultMaxItems = 64
	maxKeys         = 1 << 16 // as many as a call of a Client may have
	maxPending      = 1 << 16
	maxPassed       = 64
)

// Option changes a Combiner.
type Option struct {
	maxItems int
	isItems  bool
	lock     []lockpipe.Option
}

// MaxItems lets a batch have at most n calls: 64 unless given. If n is below 1, Do returns
// ErrInvalid.
func MaxItems(n int) Option { return Option{maxItems: n, isItems: true} }

// LockOptions are the options of the lease, such as lockpipe.WithFencing or WithAutoExtend. Unless
// given, the lease is one of the Client's TTL. If it is used repeatedly, all options count.
func LockOptions(opts ...lockpipe.Option) Option { return Option{lock: slices.Clone(opts)} }

// Combiner runs calls of Do in batches. New makes it, and Do and Stats are safe for concurrent use.
// There is nothing to close: Close of the Client ends its calls.
type Combiner[T, R any] struct {
	// Set once.
	client *lockpipe.Client
	run    func(ctx context.Context, lease *lockpipe.Lease, items []T) ([]R, error)
	lock   []lockpipe.Option
	bad    error // an option makes no sense

	mu    sync.Mutex // guards the rest; nothing else is locked under it
	queue *queue
	stats Stats
}

// entry is what the Combiner knows of a call.
type entry[T, R any] struct {
	call
	item  T
	since time.Time
	done  chan struct{} // closed when the rest is set
	// Set once before done is closed.
	result R
	err    error
	run    *outcome[R] // nil if run has not begun
}

// New returns a Combiner of leases of client. run works on a batch: it gets at least one item, in
// the order of arrival, and returns one result for each, in the same order. Its ctx ends with the
// lease or with Close, and not with a caller. Its lease has the keys of all items; run need not
// release it. Batches without a common key run at the same time.
func New[T, R any](client *lockpipe.Client,
	run func(ctx context.Context, lease *lockpipe.Lease, items []T) ([]R, error), opts ...Option,
) *Combiner[T, R] {
	c := &Combiner[T, R]{client: client, run: run}
	maxItems := defaultMaxItems
	for _, o := range opts {
		if o.isItems {
			maxItems = o.maxItems
		}
		c.lock = append(c.lock, o.lock...)
	}
	switch {
	case client == nil:
		c.bad = invalid("client is nil: give New what lockpipe.New returned")
	case run == nil:
		c.bad = invalid("run is nil: give New the function that works on a batch")
	case maxItems < 1:
		c.bad = invalid("MaxItems(%d): give at least 1", maxItems)
	}
	c.queue = newQueue(maxItems, maxKeys, maxPassed)
	return c
}

// Do runs item with the items of other callers, while one lease holds keys and theirs. It returns
// the result of item. It waits until run has worked on it, or until ctx ends before run has begun:
// then errors.Is finds ctx's error, and ErrHeld if another batch had its keys. Do mostly does not
// know whether another process had them. Errors of the lease are those of Client.DoAll. The zero
// result comes with every error but the end of the lease while run worked (ErrLost, ErrExpired or
// ErrClosed). If run panics, Do panics with the same value. A release that the nodes have not
// confirmed is no error of Do: it goes on in the background.
// Keys, options or a run that make no sense are ErrInvalid, and nothing was sent.
func (c *Combiner[T, R]) Do(ctx context.Context, keys []string, item T) (R, error) {
	e := &entry[T, R]{item: item, since: time.Now(), done: make(chan struct{})}
	if err := c.check(ctx, keys); err != nil {
		return e.result, err
	}
	e.keys, e.owner = slices.Clone(ids.Distinct(keys)), e
	if err := c.add(e); err != nil {
		return e.result, err
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		if err := c.leave(ctx, e); err != nil {
			return e.result, err
		}
		<-e.done
	}
	if e.run != nil && e.run.panicked {
		panic(e.run.value)
	}
	return e.result, e.err
}

// check refuses what makes no sense. What is left for the Client to refuse depends on its Config.
func (c *Combiner[T, R]) check(ctx context.Context, keys []string) error {
	switch {
	case c.bad != nil:
		return c.bad
	case ctx == nil:
		return invalid("ctx is nil: pass context.Background()")
	case len(keys) == 0:
		return invalid("no keys: give at least one")
	case len(keys) > maxKeys:
		return invalid("%d keys in one call: give at most %d", len(keys), maxKeys)
	case ctx.Err() != nil:
		return prefix.Errorf("%.64q: %w", keys[0], ctx.Err())
	}
	for i, k := range keys {
		if k == "" {
			return invalid("key %d of %d is empty", i+1, len(keys))
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return prefix.Errorf("%w: "+format, append([]any{lockpipe.ErrInvalid}, args...)...)
}

func (c *Combiner[T, R]) add(e *entry[T, R]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue.pending >= maxPending {
		return lockpipe.ErrOverloaded
	}
	c.start(c.queue.add(&e.call))
	return nil
}

// leave takes e out, and returns what Do returns then; nil if run has begun or e is done.
func (c *Combiner[T, R]) leave(ctx context.Context, e *entry[T, R]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-e.done:
		return nil
	default:
	}
	b := e.batch
	left, isEmpty, started := c.queue.leave(&e.call)
	if !left {
		return nil
	}
	c.start(started)
	if isEmpty {
		b.cancel()
	}
	err := ctx.Err()
	if b == nil || b.parked {
		err = errors.Join(&lockpipe.HeldError{Keys: e.keys[:1]}, err)
	}
	return prefix.Errorf("waited %v for %.64q: %w", time.Since(e.since).Round(time.Millisecond),
		e.keys[0], err)
}

// start lets batches run. The caller holds mu.
func (c *Combiner[T, R]) start(batches []*batch) {
	for _, b := range batches {
		b.ctx, b.cancel = context.WithCancel(context.Background())
		go c.serve(b)
	}
}

// Stats are counts of a Combiner. Pending is of now.
type Stats struct {
	// Batches is how often run was called, and Items is how many items it got.
	Batches, Items uint64
	// Waited is how long the items waited for their run, added up.
	Waited time.Duration
	// Pending is the number of calls of Do that wait, or whose run works.
	Pending int
}

// Stats returns the counts since New. Package metrics shows them to Prometheus.
func (c *Combiner[T, R]) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Pending = c.queue.pending
	return s
}
