package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockpipe/lockpipe"
)

// caller is one goroutine of a process that takes leases, one call after the other, as its random
// numbers say.
type caller struct {
	process *process
	run     *run
	name    string
	rng     *rand.Rand
	fences  *rand.Rand // of whether it asks for one
	breaks  *rand.Rand // of whether connections are lost while it extends
	names   *rand.Rand // of whether names change while it extends

	fenced bool // its last call that acquires did
}

func (c *caller) live() {
	for c.run.pause(around(c.rng, c.run.plan.think)) {
		c.process.react(c.rng)
		c.turn()
	}
}

// chance is true in so many of 100 cases.
func (c *caller) chance(percent int) bool { return c.rng.IntN(100) < percent }

// patience is a context for one call, which now and then ends very soon.
func (c *caller) patience() (context.Context, context.CancelFunc) {
	d := around(c.rng, 2*time.Second)
	if c.chance(15) {
		d = around(c.rng, c.run.plan.latency*2)
	}
	return context.WithTimeout(context.Background(), d)
}

// keys are some keys, in any order; a key may be there twice.
func (c *caller) keys() []string {
	keys := make([]string, 1+c.rng.IntN(c.run.plan.keys+1))
	for i := range keys {
		keys[i] = c.key()
	}
	return keys
}

func (c *caller) key() string { return fmt.Sprint("k", c.rng.IntN(c.run.plan.keys)) }

// turn makes one call that acquires, and does what follows.
func (c *caller) turn() {
	ctx, cancel := c.patience()
	defer cancel()
	client, ttl := c.process.current(), c.run.plan.ttl(c.rng)
	opts := []lockpipe.Option{lockpipe.WithTTL(ttl)}
	if c.chance(20) {
		opts = append(opts, lockpipe.WithRetryDelay(0, time.Millisecond+around(c.rng,
			10*time.Millisecond)))
	}
	if c.chance(20) {
		opts = append(opts, lockpipe.WithMaxAttempts(1+c.rng.IntN(5)))
	}
	if c.fenced = c.fences.IntN(100) < c.run.plan.fenced; c.fenced {
		opts = append(opts, lockpipe.WithFencing())
	}
	kind, auto := c.rng.IntN(10), c.chance(25)
	if auto {
		opts = append(opts, lockpipe.WithAutoExtend(10*time.Millisecond+around(c.rng, 2*ttl)))
	}
	called := time.Now()
	var l *lockpipe.Lease
	var err error
	switch {
	case kind < 3:
		l, err = client.TryAcquire(ctx, c.key(), opts...)
	case kind < 4:
		l, err = client.TryAcquireAll(ctx, c.keys(), opts...)
	case kind < 7:
		l, err = client.Acquire(ctx, c.key(), opts...)
	case kind < 9:
		l, err = client.AcquireAll(ctx, c.keys(), opts...)
	default:
		c.each(ctx, client, auto, opts)
		return
	}
	if h := c.acquired(l, err, called, auto); h != nil {
		c.process.react(c.rng)
		c.hold(h)
		c.release(h)
	}
}

// each takes several leases, holds them together, and releases them together.
func (c *caller) each(ctx context.Context, client *lockpipe.Client, auto bool,
	opts []lockpipe.Option,
) {
	called := time.Now()
	var holds []*hold
	seen := map[*lockpipe.Lease]bool{}
	for _, r := range client.TryAcquireEach(ctx, c.keys(), opts...) {
		if seen[r.Lease] {
			continue // a key given twice
		}
		if h := c.acquired(r.Lease, r.Err, called, auto); h != nil {
			seen[r.Lease] = true
			holds = append(holds, h)
		}
	}
	if len(holds) == 0 {
		return
	}
	c.process.react(c.rng)
	c.hold(holds[0])
	leases := make([]*lockpipe.Lease, len(holds))
	for i, h := range holds {
		leases[i] = h.lease
		c.run.before(h)
	}
	end, cancel := c.patience()
	defer cancel()
	err := client.ReleaseAll(end, leases...)
	c.note("release all", leases[0].Keys(), c.run.name(err, releasing))
	for _, h := range holds {
		h.freed(time.Now())
	}
}

// acquired notes the outcome of an acquiring call, and begins a hold where it has a lease that has
// none yet.
func (c *caller) acquired(l *lockpipe.Lease, err error, called time.Time, auto bool) *hold {
	if (l == nil) == (err == nil) {
		c.run.history.violation("%s: a call returned lease %v and error %v", c.name, l, err)
	}
	c.note("acquire", l.Keys(), c.run.name(err, acquiring))
	if l == nil {
		return nil
	}
	if (l.Fence() > 0) != c.fenced {
		c.run.history.violation("%s: asked for a fence: %v, and has %d", c.name, c.fenced,
			l.Fence())
	}
	if l.Err() != nil {
		// Over already: the call went on for other keys, or the client was closed meanwhile.
		_ = l.Release(context.Background())
		return nil
	}
	h := c.run.history.begin(c.name, l, called, auto)
	c.run.backed(h)
	return h
}

// hold keeps a lease for a time, which may be longer than it lasts, and may extend it.
func (c *caller) hold(h *hold) {
	for range c.rng.IntN(4) {
		d := around(c.rng, c.run.plan.think)
		if c.chance(10) {
			d = around(c.rng, c.run.plan.maxTTL)
		}
		ctx, cancel := context.WithTimeout(h.lease.Context(), d)
		<-ctx.Done()
		cancel()
		c.process.react(c.rng)
		if c.chance(50) && !c.extend(h, c.run.plan.ttl(c.rng)) {
			c.insist(h)
		}
	}
	if c.chance(10) {
		<-h.lease.Done() // nobody extends it any more
	}
}

// insist tries for a long extension after one that was not confirmed.
func (c *caller) insist(h *hold) {
	for tries := c.rng.IntN(6); tries > 0 && h.lease.Err() == nil &&
		!c.extend(h, c.run.plan.maxTTL); tries-- {
		time.Sleep(around(c.rng, 100*time.Millisecond))
	}
	if c.run.plan.broken > 0 { // what was sent on the broken connections arrives
		ctx, cancel := context.WithTimeout(h.lease.Context(), c.run.plan.lag())
		<-ctx.Done()
		cancel()
	}
}

// extend reports whether the extension was confirmed.
func (c *caller) extend(h *hold, ttl time.Duration) bool {
	ctx, cancel := c.patience()
	defer cancel()
	called := time.Now()
	if c.breaks.IntN(100) < c.run.plan.broken {
		time.AfterFunc(below(c.breaks, 2*c.run.plan.latency), c.process.snap)
	}
	if c.run.plan.aliases > 0 && c.names.IntN(100) < 30 {
		c.process.move(c.names)
	}
	err := h.lease.Extend(ctx, ttl)
	c.note("extend", h.keys, c.run.name(err, extending))
	h.extended(called, time.Now(), err == nil)
	c.run.backed(h)
	c.process.react(c.rng)
	return err == nil
}

// release ends a hold; now and then by two calls, the first without patience.
func (c *caller) release(h *hold) {
	c.run.before(h)
	ctx, cancel := c.patience()
	defer cancel()
	if c.chance(10) {
		short, cut := context.WithTimeout(ctx, around(c.rng, c.run.plan.latency))
		err := h.lease.Release(short)
		cut()
		c.note("release", h.keys, c.run.name(err, releasing))
		c.process.react(c.rng)
	}
	err := h.lease.Release(ctx)
	c.note("release", h.keys, c.run.name(err, releasing))
	h.freed(time.Now())
	c.process.react(c.rng)
	if err == nil && h.lease.Release(ctx) != nil {
		c.run.history.violation("%s: a second release of %v fails after the first did not", c.name,
			h.keys)
	}
}

func (c *caller) note(what string, keys []string, outcome string) {
	c.run.history.note(c.name, fmt.Sprint(what, " ", keys, ": ", outcome))
}
