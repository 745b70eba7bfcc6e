package calls

import (
	"context"
	"slices"
	"time"

	"github.com/lockpipe/lockpipe/internal/line"
	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/stats"
	"github.com/lockpipe/lockpipe/internal/wait"
)

// maxTries is how many attempts a call makes, one behind the other, if others take keys at the same
// moment.
const maxTries = 3

// AcquireAny takes o.Count of the keys. It looks which keys are free, and acquires free ones as
// TryAcquireAll does, so it never holds more. If o.Kind is not Try, it waits until it has them.
func (c *Calls) AcquireAny(ctx context.Context, keys []string, o *locker.Options) (*locker.Lease,
	*locker.Failure,
) {
	o.Start = time.Now()
	return c.locker.Call(ctx, o, func() (*locker.Lease, *locker.Failure) {
		p := c.join(keys)
		defer c.part(p)
		var last *locker.Failure
		try := func() (l *locker.Lease, _ *locker.Failure) {
			l, last = c.tryAny(ctx, p, o, last.IsNoQuorum())
			return l, last
		}
		switch {
		case o.Kind == stats.Try:
			return try()
		case o.MaxAttempts > 0:
			return c.repeat(ctx, p.keys, o, nil, nil, try)
		}
		return c.waitForAny(ctx, p, o, try)
	})
}

// waitForAny tries until the keys are granted. Of the calls of a pool that wait, the first one
// tries.
func (c *Calls) waitForAny(ctx context.Context, p *pool, o *locker.Options,
	try func() (*locker.Lease, *locker.Failure),
) (l *locker.Lease, f *locker.Failure) {
	reachable := c.locker.NodesChanged() // before the try, so that none is missed
	if p.waiting.Load() > 0 {
		f = locker.Held(slices.Clone(p.keys), nil)
	} else if l, f = try(); f == nil || !f.Retryable() {
		return l, f
	}
	defer c.lineUp(ctx, p)()
	futile := 0
	return c.repeat(ctx, p.keys, o, f, func(last *locker.Failure) error {
		end := c.awaitKeys(ctx, p, o, last, &futile, reachable)
		futile++
		reachable = c.locker.NodesChanged()
		return end
	}, try)
}

// tryAny makes a try. A refusal says that what is known of the keys is out of date.
func (c *Calls) tryAny(ctx context.Context, p *pool, o *locker.Options, outOfDate bool) (
	*locker.Lease, *locker.Failure,
) {
	var refused *locker.Failure
	for range maxTries {
		some, held, f := c.chooseKeys(ctx, p, o.Count, outOfDate)
		var l *locker.Lease
		if f == nil {
			l, f = c.locker.Try(ctx, some, o)
		}
		switch {
		case f == nil:
			return l, nil
		case refused != nil && f.CutShort(ctx):
			return nil, refused.EndedBy(ctx.Err())
		case held != nil && f.IsNoQuorum() && f.Retryable() && !f.CutShort(ctx):
			return nil, held // and the keys that are not held have no quorum
		case !f.IsHeld() || some == nil:
			return nil, f
		}
		refused, outOfDate = f, true
		refused.Votes.Keys = slices.Clone(p.keys)
	}
	return nil, refused
}

// chooseKeys takes so many keys out of those that are known to be free. If they are too few, or may
// be out of date, it looks first, and takes keys of which too few nodes have answered if it must.
// held is what the look found held then.
func (c *Calls) chooseKeys(ctx context.Context, p *pool, count int, outOfDate bool) (
	some []string, held, f *locker.Failure,
) {
	select { // a look is for all calls of the pool
	case p.busy <- struct{}{}:
		defer func() { <-p.busy }()
	case <-ctx.Done():
	}
	if end := ctx.Err(); end != nil {
		return nil, nil, &locker.Failure{End: end}
	}
	if outOfDate || len(p.free) < count {
		l, err := c.locker.Mux.Look(ctx, p.keys)
		if err != nil {
			return nil, nil, &locker.Failure{End: err}
		}
		if p.free, p.heldAt = l.Free, l.At; len(l.Free) < count {
			if len(l.Held) > 0 {
				held = locker.Held(l.Held, l.Nodes)
			}
			if some = slices.Concat(l.Free, l.Unknown); len(some) < count {
				return nil, nil, held
			}
			return some[:count], held, nil
		}
	}
	some, p.free = p.free[:count:count], p.free[count:]
	return some, nil, nil
}

// awaitKeys waits until enough keys may be free, or until the delay behind the last failure is
// over, or a quorum of nodes is reachable again. It returns why the call ends before that.
func (c *Calls) awaitKeys(ctx context.Context, p *pool, o *locker.Options, last *locker.Failure,
	futile *int, reachable <-chan struct{},
) (end error) {
	began, delay, noQuorum := time.Now(), o.RetryDelay(), last.IsNoQuorum()
	if noQuorum {
		delay = wait.NoQuorumDelay(delay)
	}
	timer := time.NewTimer(line.Forever)
	defer timer.Stop()
	p.watch(o.Count, c.locker.Mux)
	for {
		if end = c.locker.EndReason(ctx); end != nil {
			return end
		}
		left, pushes := p.untilFree(o.Count, futile)
		latest := delay - time.Since(began)
		if pushes {
			latest += (wait.PushDelayFactor - 1) * delay
		}
		if left = min(left, latest); noQuorum { // no change of the keys makes it better
			left = max(latest, c.outageWait(p.keys)-time.Since(began))
		}
		if left <= 0 {
			return nil
		}
		timer.Reset(left)
		select {
		case <-p.wake:
		case <-timer.C:
		case <-reachable:
			return nil
		case <-ctx.Done():
		case <-c.locker.Open.Done():
		}
	}
}

// outageWait returns for how long no group of these keys can grant, if no state of a node changes:
// see outage.Queue.Wait. It is 0 if some group can.
func (c *Calls) outageWait(keys []string) (least time.Duration) {
	least = line.Forever
	for i := range keys {
		queue, lacks := c.locker.Outage(keys[i : i+1])
		if !lacks {
			return 0
		}
		least = min(least, queue.Wait())
	}
	return least
}
