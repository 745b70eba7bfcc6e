package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lease"
)

// caller is one goroutine of a process that acquires leases, one call after the other, as its
// random numbers say.
type caller struct {
	process  *process
	sim      *run
	name     string
	rng      *rand.Rand
	fenceRng *rand.Rand // for whether it asks for a fence
	resetRng *rand.Rand // for whether connections break while it extends
	aliasRng *rand.Rand // for whether names change while it extends
	nestRng  *rand.Rand // for whether it asks for other keys while it holds some
	keepRng  *rand.Rand // for whether it keeps the keys
	anyRng   *rand.Rand // for whether it wants any of some keys, and of which
	adoptRng *rand.Rand // for whether it adopts keys, and whose

	adopts     string       // the token of keys that its call is to adopt; "": none
	wantsFence bool         // in its last call that acquires
	layout     clientLayout // of the client of that call
}

func (c *caller) run() {
	for c.sim.sleep(around(c.rng, c.sim.plan.thinkTime)) {
		c.process.jitter(c.rng)
		c.oneCall()
	}
}

// chance returns true in percent of 100 cases.
func (c *caller) chance(percent int) bool { return c.rng.IntN(100) < percent }

// callContext returns a context for one call. Now and then it ends very soon.
func (c *caller) callContext() (context.Context, context.CancelFunc) {
	d := around(c.rng, 2*time.Second)
	if c.chance(15) {
		d = around(c.rng, c.sim.plan.latency*2)
	}
	return context.WithTimeout(context.Background(), d)
}

// keys returns some keys, in any order. A key may occur twice.
func (c *caller) keys() []string {
	keys := make([]string, 1+c.rng.IntN(c.sim.plan.keys+1))
	for i := range keys {
		keys[i] = c.key()
	}
	return keys
}

// anyKeys returns some keys of which the caller wants any.
func (c *caller) anyKeys() []string {
	keys := make([]string, 1+c.anyRng.IntN(6))
	for i := range keys {
		keys[i] = fmt.Sprint("k", c.anyRng.IntN(c.sim.plan.keys))
	}
	return keys
}

// acquireAny takes one of some keys, or two.
func (c *caller) acquireAny(ctx context.Context, client *lockpipe.Client, once bool,
	opts []lockpipe.Option,
) (*lockpipe.Lease, error) {
	keys := c.anyKeys()
	if slices.ContainsFunc(keys, func(key string) bool { return key != keys[0] }) &&
		c.anyRng.IntN(3) == 0 {
		opts = append(opts, lockpipe.WithCount(2))
	}
	if once {
		return client.TryAcquireAny(ctx, keys, opts...)
	}
	return client.AcquireAny(ctx, keys, opts...)
}

func (c *caller) key() string { return fmt.Sprint("k", c.rng.IntN(c.sim.plan.keys)) }

// oneCall makes one call that acquires, holds what it got, and releases it.
func (c *caller) oneCall() {
	ctx, cancel := c.callContext()
	defer cancel()
	client, used := c.process.clientAndLayout()
	c.layout = used
	ttl := used.drawTTL(c.sim.plan, c.rng)
	opts := []lockpipe.Option{lockpipe.WithTTL(ttl)}
	if c.chance(20) {
		opts = append(opts, lockpipe.WithRetryDelay(0, time.Millisecond+around(c.rng,
			10*time.Millisecond)))
	}
	if c.chance(20) {
		opts = append(opts, lockpipe.WithMaxAttempts(1+c.rng.IntN(5)))
	}
	wantsAny := c.anyRng.IntN(100) < c.sim.plan.anyPercent
	c.wantsFence = c.fenceRng.IntN(100) < c.sim.plan.fencedPercent && !wantsAny
	if c.wantsFence {
		opts = append(opts, lockpipe.WithFencing())
	}
	kind, auto := c.rng.IntN(10), c.chance(25)
	if auto {
		opts = append(opts, lockpipe.WithAutoExtend(10*time.Millisecond+around(c.rng, 2*ttl)))
	}
	called := time.Now()
	var l *lockpipe.Lease
	var err error
	known := c.sim.history.known()
	adopts := c.adoptRng.IntN(100) < c.sim.plan.adoptPercent && len(known) > 0
	switch {
	case adopts:
		h := known[c.adoptRng.IntN(len(known))]
		c.adopts = h.token
		l, err = client.Adopt(ctx, h.text, opts...)
	case wantsAny:
		l, err = c.acquireAny(ctx, client, kind < 5, opts)
	case kind < 3:
		l, err = client.TryAcquire(ctx, c.key(), opts...)
	case kind < 4:
		l, err = client.TryAcquireAll(ctx, c.keys(), opts...)
	case kind < 7:
		l, err = client.Acquire(ctx, c.key(), opts...)
	case kind < 9:
		l, err = client.AcquireAll(ctx, c.keys(), opts...)
	default:
		c.acquireEach(ctx, client, auto, opts)
		return
	}
	h := c.recordAcquire(l, err, called, auto)
	c.adopts = ""
	if h != nil {
		c.process.jitter(c.rng)
		if c.adoptRng.IntN(100) < c.sim.plan.adoptPercent {
			h.publish()
		}
		c.keepLease(h)
		if h.lease.Err() != nil && c.nestRng.IntN(100) < c.sim.plan.nestedPercent {
			h.recordReleased(time.Now()) // the caller does not care for a lease that is over
			return
		}
		if c.keepRng.IntN(100) < c.sim.plan.keptPercent {
			c.keepKeys(h)
		}
		c.release(h)
	}
}

// acquireEach acquires several leases, holds them together, and releases them together.
func (c *caller) acquireEach(ctx context.Context, client *lockpipe.Client, auto bool,
	opts []lockpipe.Option,
) {
	called := time.Now()
	var holds []*hold
	seen := map[*lockpipe.Lease]bool{}
	for _, r := range client.TryAcquireEach(ctx, c.keys(), opts...) {
		if seen[r.Lease] {
			continue // a key given twice
		}
		if h := c.recordAcquire(r.Lease, r.Err, called, auto); h != nil {
			seen[r.Lease] = true
			holds = append(holds, h)
		}
	}
	if len(holds) == 0 {
		return
	}
	c.process.jitter(c.rng)
	c.keepLease(holds[0])
	leases := make([]*lockpipe.Lease, len(holds))
	for i, h := range holds {
		leases[i] = h.lease
		c.sim.beforeRelease(h)
	}
	end, cancel := c.callContext()
	defer cancel()
	err := client.ReleaseAll(end, leases...)
	c.note("release all", leases[0].Keys(), c.sim.outcome(err, releasing))
	for _, h := range holds {
		if !slices.ContainsFunc(leases, func(l *lockpipe.Lease) bool { // err may be about another
			return errors.Is(l.Err(), lockpipe.ErrLost)
		}) {
			c.sim.afterRelease(h, err)
		}
		h.recordReleased(time.Now())
	}
}

// recordAcquire records the outcome of an acquiring call, and returns the hold of a lease that has
// not ended yet.
func (c *caller) recordAcquire(l *lockpipe.Lease, err error, called time.Time, auto bool) *hold {
	if (l == nil) == (err == nil) {
		c.sim.history.violation("%s: a call returned lease %v and error %v", c.name, l, err)
	}
	allowed, what := acquiring, "acquire"
	if c.adopts != "" {
		allowed, what = adopting, "adopt"
	}
	c.note(what, l.Keys(), c.sim.outcome(err, allowed))
	if l == nil {
		return nil
	}
	if (l.Fence() > 0) != c.wantsFence {
		c.sim.history.violation("%s: asked for a fence: %v, and has %d", c.name, c.wantsFence,
			l.Fence())
	}
	if l.Err() != nil {
		// The lease has ended already: the call continued for other keys, or the client was closed.
		_ = l.Release(context.Background())
		return nil
	}
	h := c.sim.history.startHold(c.name, l, c.layout, called, auto)
	h.adopts = c.adopts
	c.sim.checkQuorumBacks(h)
	c.sim.checkServers(h)
	return h
}

// keepLease keeps a lease for a time, which may be longer than the lease lasts, and may extend it.
func (c *caller) keepLease(h *hold) {
	for range c.rng.IntN(4) {
		d := around(c.rng, c.sim.plan.thinkTime)
		if c.chance(10) {
			d = around(c.rng, c.sim.plan.maxTTL)
		}
		ctx, cancel := context.WithTimeout(h.lease.Context(), d)
		<-ctx.Done()
		cancel()
		c.process.jitter(c.rng)
		if c.chance(50) && !c.extend(h, h.layout.drawTTL(c.sim.plan, c.rng)) {
			c.retryExtend(h)
		}
	}
	if c.nestRng.IntN(100) < c.sim.plan.nestedPercent {
		c.nest()
	}
	if c.chance(10) {
		<-h.lease.Done() // nobody extends it any more
	}
}

// keepKeys ends a lease by Keep, if that is confirmed.
func (c *caller) keepKeys(h *hold) {
	ctx, cancel := c.callContext()
	defer cancel()
	called, d := c.sim.history.nodesTime(), h.layout.drawTTL(c.sim.plan, c.keepRng)
	if c.sim.plan.adoptPercent > 0 {
		h.publish()
	}
	err := h.lease.Keep(ctx, d)
	c.note("keep", h.keys, c.sim.outcome(err, keeping))
	if err == nil {
		h.recordKept(called.Add(lease.Validity(d)))
	}
	c.process.jitter(c.keepRng)
}

// nest asks for more keys while the caller holds a lease, maybe of these keys.
func (c *caller) nest() {
	ctx, cancel := context.WithTimeout(context.Background(), around(c.nestRng,
		100*time.Millisecond))
	defer cancel()
	keys := []string{fmt.Sprint("k", c.nestRng.IntN(c.sim.plan.keys))}
	if c.nestRng.IntN(2) == 0 {
		keys = append(keys, fmt.Sprint("k", c.nestRng.IntN(c.sim.plan.keys)))
	}
	wantsFence := c.wantsFence
	c.wantsFence = false
	defer func() { c.wantsFence = wantsFence }()
	called := time.Now()
	client, used := c.process.clientAndLayout()
	c.layout = used
	l, err := client.AcquireAll(ctx, keys, lockpipe.WithTTL(min(c.sim.plan.maxTTL, used.maxTTL)))
	if h := c.recordAcquire(l, err, called, false); h != nil {
		time.Sleep(around(c.nestRng, c.sim.plan.thinkTime))
		c.release(h)
	}
}

// retryExtend tries a long extension after one that was not confirmed.
func (c *caller) retryExtend(h *hold) {
	for tries := c.rng.IntN(6); tries > 0 && h.lease.Err() == nil &&
		!c.extend(h, min(c.sim.plan.maxTTL, h.layout.maxTTL)); tries-- {
		time.Sleep(around(c.rng, 100*time.Millisecond))
	}
	if c.sim.plan.resetPercent > 0 { // until what was sent on broken connections arrives
		ctx, cancel := context.WithTimeout(h.lease.Context(), c.sim.plan.lateDelay())
		<-ctx.Done()
		cancel()
	}
}

// extend reports whether the extension was confirmed.
func (c *caller) extend(h *hold, ttl time.Duration) bool {
	ctx, cancel := c.callContext()
	defer cancel()
	called := time.Now()
	if c.resetRng.IntN(100) < c.sim.plan.resetPercent {
		time.AfterFunc(below(c.resetRng, 2*c.sim.plan.latency), c.process.resetConns)
	}
	if c.sim.plan.aliasEvery > 0 && c.aliasRng.IntN(100) < 30 {
		c.process.moveNode(c.aliasRng)
	}
	h.beginExtension()
	err := h.lease.Extend(ctx, ttl)
	c.note("extend", h.keys, c.sim.outcome(err, extending))
	h.recordExtension(called, time.Now(), err == nil)
	c.sim.checkQuorumBacks(h)
	c.process.jitter(c.rng)
	return err == nil
}

// release ends a hold; now and then by two calls, the first with a short timeout.
func (c *caller) release(h *hold) {
	c.sim.beforeRelease(h)
	ctx, cancel := c.callContext()
	defer cancel()
	if c.chance(10) {
		short, cut := context.WithTimeout(ctx, around(c.rng, c.sim.plan.latency))
		err := h.lease.Release(short)
		cut()
		c.note("release", h.keys, c.sim.outcome(err, releasing))
		c.sim.afterRelease(h, err)
		c.process.jitter(c.rng)
	}
	err := h.lease.Release(ctx)
	c.note("release", h.keys, c.sim.outcome(err, releasing))
	c.sim.afterRelease(h, err)
	h.recordReleased(time.Now())
	c.process.jitter(c.rng)
	if err == nil && h.lease.Release(ctx) != nil {
		c.sim.history.violation("%s: a second release of %v fails after the first did not", c.name,
			h.keys)
	}
}

func (c *caller) note(what string, keys []string, outcome string) {
	c.sim.history.note(c.name, fmt.Sprint(what, " ", keys, ": ", outcome))
}
