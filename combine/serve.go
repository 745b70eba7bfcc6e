package combine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/prefix"
)

// outcome is what one batch has come to. It is owned by the goroutine of the batch.
type outcome[R any] struct {
	begun    bool
	results  []R
	err      error // of the lease before run has begun, or of run
	end      error // of the lease while run worked
	panicked bool
	value    any // of the panic
}

// errGoexit is for the callers of a run that has ended its goroutine, as t.FailNow does.
var errGoexit = errors.New(prefix.Text + "the function of the batch called runtime.Goexit")

// serve runs one batch.
func (c *Combiner[T, R]) serve(b *batch) {
	out := new(outcome[R])
	defer c.finish(b, out) // also after runtime.Goexit
	defer b.cancel()
	err := c.hold(b, out)
	switch {
	case !out.begun:
		out.err = err
	case errors.Is(err, lockpipe.ErrLost), errors.Is(err, lockpipe.ErrExpired),
		errors.Is(err, lockpipe.ErrClosed):
		out.end = err
	}
}

// hold takes the lease of b, and works on b while the lease lasts.
func (c *Combiner[T, R]) hold(b *batch, out *outcome[R]) error {
	work := func(ctx context.Context, lease *lockpipe.Lease) error {
		c.work(ctx, lease, b, out)
		return nil
	}
	if keys, isMixed := c.wanted(b); isMixed {
		// Only a bounded call says at once which keys another process has.
		once := append(slices.Clone(c.lock), lockpipe.WithMaxAttempts(1))
		err := c.client.DoAll(b.ctx, keys, work, once...)
		var held *lockpipe.HeldError
		switch {
		case out.begun, !errors.Is(err, lockpipe.ErrHeld) && !errors.Is(err, lockpipe.ErrNoQuorum):
			return err
		case errors.As(err, &held):
			c.refuse(b, held.Keys)
		}
	}
	keys, _ := c.wanted(b)
	return c.client.DoAll(b.ctx, keys, work, c.lock...)
}

// wanted returns the keys of b, and whether its calls want different ones.
func (c *Combiner[T, R]) wanted(b *batch) (keys []string, isMixed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range b.calls {
		if len(o.keys) < len(b.keys) {
			return b.keys, true
		}
	}
	return b.keys, false
}

func (c *Combiner[T, R]) refuse(b *batch, held []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start(c.queue.refuse(b, held))
}

// work runs run with the items of b.
func (c *Combiner[T, R]) work(ctx context.Context, lease *lockpipe.Lease, b *batch,
	out *outcome[R],
) {
	items := c.begin(b)
	if len(items) == 0 {
		return
	}
	out.begun, out.err = true, errGoexit
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), lockpipe.ErrClosed) {
			c.failWaiting()
		}
	})
	defer stop()
	returned := false
	defer func() {
		if value := recover(); value != nil && !returned {
			out.panicked, out.value = true, value
		}
	}()
	out.results, out.err = c.run(ctx, lease, items)
	returned = true
	if out.err == nil && len(out.results) != len(items) {
		out.err = prefix.Errorf("the function of the batch returned %d results for %d items: "+
			"give one for each, in the same order", len(out.results), len(items))
	}
}

// begin returns the items of b, which no caller leaves any more.
func (c *Combiner[T, R]) begin(b *batch) []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.queue.begin(b) {
		return nil
	}
	now := time.Now()
	items := make([]T, len(b.calls))
	for i, o := range b.calls {
		e := o.owner.(*entry[T, R])
		items[i] = e.item
		c.stats.Waited += now.Sub(e.since)
	}
	c.stats.Batches++
	c.stats.Items += uint64(len(items))
	return items
}

// finish lets the next batches start, and the callers of b return.
func (c *Combiner[T, R]) finish(b *batch, out *outcome[R]) {
	c.mu.Lock()
	// One call's keys that the Client refuses must not fail the other calls.
	retry := !out.begun && len(b.calls) > 1 && errors.Is(out.err, lockpipe.ErrInvalid)
	calls := b.calls
	c.start(c.queue.end(b, retry))
	if !retry {
		for i, o := range calls {
			e := o.owner.(*entry[T, R])
			switch {
			case !out.begun:
				e.err = out.err
			case out.err != nil:
				e.run, e.err = out, joined(out.err, out.end)
			default:
				e.run, e.result, e.err = out, out.results[i], out.end
			}
			close(e.done)
		}
	}
	c.mu.Unlock()
	if errors.Is(out.err, lockpipe.ErrClosed) || errors.Is(out.end, lockpipe.ErrClosed) {
		c.failWaiting()
	}
}

// joined joins the error of run and that of the lease, which is nil if the lease lasted.
func joined(err, end error) error {
	if end == nil {
		return err
	}
	return fmt.Errorf("%w; %w", err, end)
}

// failWaiting lets the calls return that wait for a batch of a Client that is closed.
func (c *Combiner[T, R]) failWaiting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.queue.takeWaiting() {
		e := o.owner.(*entry[T, R])
		e.err = lockpipe.ErrClosed
		close(e.done)
	}
}
