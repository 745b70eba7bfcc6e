package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A scenario is one kind of load.
type scenario struct {
	name string
	// callers run at the same time, each one call after another, each call with so many keys of its own.
	callers, keys int
	about         string
	hot           *hotLoad // nil: every call has keys of its own
}

const (
	// frozenName is the scenario in which lockpipe runs against itself, with and without a dead node.
	frozenName = "frozen"
	// hotName is the scenario in which the callers of one client wait for one key.
	hotName = "hot"
)

var scenarios = []scenario{
	{name: "one", callers: 1, keys: 1, about: "1 caller, one key a call"},
	{name: "64", callers: 64, keys: 1, about: "64 callers, one key a call"},
	{name: "512", callers: 512, keys: 1, about: "512 callers, one key a call"},
	{name: "batch", callers: 8, keys: 100, about: "8 callers, 100 keys a call"},
	{name: frozenName, callers: 64, keys: 1, about: "64 callers, one key a call, one node stopped in every second round"},
	// The flags say how many callers hot has, and how long they hold the key.
	{name: hotName, callers: defaultHotCallers, keys: 1, hot: &hotLoad{}},
	{name: "hot16", callers: 16, keys: 1, hot: &hotLoad{own: true}},
}

// A contestant is what one line of a table stands for: a contender, and what is done to the nodes around its rounds.
type contestant struct {
	label, where string
	// tag begins its keys, so that those it leaves behind can be told from the others'.
	tag           string
	contender     Contender
	crew          []waiter // who waits in a hot scenario: caller i is one of crew[i], again from the start after the last
	before, after func(ctx context.Context) error
}

// settings are the flags that a measurement needs.
type settings struct {
	rounds         int
	window, warmup time.Duration
}

// round is what one contestant did in one window.
type round struct {
	// Locks were taken and given back within Window; a call over 100 keys is 100 locks. A call that began before it or
	// ended after it counts with the part of its time that lies within; but in the hot scenarios a lock counts whole where it
	// was granted, and P50, P99 and Max are of the time that it was waited for.
	Locks  float64       `json:"locks"`
	Window time.Duration `json:"window_ns"`
	CPU    time.Duration `json:"client_cpu_ns"`
	// P50 and P99 are over the calls that ended in the window. Max also knows those that were still under way at its
	// end: a call that hangs must not vanish.
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
	Max time.Duration `json:"max_ns"`
	// MinShare is, in the hot scenarios, the locks of the caller that got the fewest over the mean of all: a caller that has
	// just given the key back is the first to be there again, and where it gets it each time, most waits are short and the
	// others get nothing.
	MinShare float64 `json:"min_share,omitempty"`
	// Errors counts failed calls, those of the warm-up too.
	Errors  int    `json:"errors"`
	AnError string `json:"an_error,omitempty"`
}

// perSecond is the throughput in locks per second.
func (r round) perSecond() float64 {
	if r.Window <= 0 {
		return 0
	}
	return r.Locks / r.Window.Seconds()
}

// cpuPerLock is the client's CPU time per lock in microseconds.
func (r round) cpuPerLock() float64 {
	if r.Locks == 0 {
		return 0
	}
	return float64(r.CPU) / float64(time.Microsecond) / r.Locks
}

// play runs the rounds of one scenario: in every round each contestant once, A B C A B C ..., so that whatever else the
// machine does in the meantime falls on all of them.
func play(ctx context.Context, s scenario, all []contestant, set settings) ([][]round, error) {
	rounds := make([][]round, len(all))
	for range set.rounds {
		for i, c := range all {
			if c.before != nil {
				if err := c.before(ctx); err != nil {
					return nil, fmt.Errorf("%s: %w", c.label, err)
				}
			}
			r := measure(ctx, s, c, set)
			if c.after != nil {
				// Not on ctx: an interrupt must not leave a node stopped.
				if err := c.after(context.WithoutCancel(ctx)); err != nil {
					return nil, fmt.Errorf("%s: %w", c.label, err)
				}
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			rounds[i] = append(rounds[i], r)
		}
	}
	return rounds, nil
}

const (
	warming int32 = iota
	measuring
	stopping
)

// measure lets the callers run through a warm-up and a window without a break. What is cut off at the window's edges
// counts in part: with eight callers of a hundred keys each, whole calls would be too coarse.
func measure(ctx context.Context, s scenario, c contestant, set settings) round {
	// The garbage of the one before is not this one's to collect.
	runtime.GC()
	var (
		phase   atomic.Int32
		wg      sync.WaitGroup
		inside  atomic.Int32
		callers = make([]caller, s.callers)
	)
	for i := range callers {
		callers[i] = caller{
			scenario: s, contestant: c, number: i, limit: set.warmup + set.window + drain,
			phase: &phase, inside: &inside, calls: make([]call, 0, 1024),
		}
		wg.Go(func() { callers[i].run(ctx) })
	}
	pause(ctx, set.warmup)
	begin, cpu := time.Since(epoch), processCPU()
	phase.Store(measuring)
	pause(ctx, set.window)
	end, used := time.Since(epoch), processCPU()-cpu
	phase.Store(stopping)
	wg.Wait()
	r := total(callers, begin, end)
	r.CPU = used
	return r
}

// total adds the callers' calls up to one round, which lasted from begin to end.
func total(callers []caller, begin, end time.Duration) round {
	r := round{Window: end - begin}
	var took []time.Duration
	shares := make([]float64, len(callers))
	for i := range callers {
		k := &callers[i]
		for _, c := range k.calls {
			if c.share(begin, end) == 0 {
				continue
			}
			shares[i] += k.locks(c, begin, end)
			r.Max = max(r.Max, c.took)
			if c.begin+c.took <= end {
				took = append(took, c.took)
			}
		}
		r.Locks += shares[i]
		r.Errors += k.errors
		if k.err != nil && r.AnError == "" {
			r.AnError = k.err.Error()
		}
	}
	if len(callers) > 0 && callers[0].scenario.hot != nil {
		r.MinShare = over(slices.Min(shares)*float64(len(shares)), r.Locks)
	}
	slices.Sort(took)
	r.P50, r.P99 = percentile(took, 50), percentile(took, 99)
	return r
}

// call is one call that succeeded. Begin is the time since epoch: without a pointer in it, the garbage collector does
// not walk through a fast contender's many calls.
type call struct {
	begin, took time.Duration
}

var epoch = time.Now()

// share is how much of the call, from 0 to 1, lies between begin and end.
func (c call) share(begin, end time.Duration) float64 {
	within := min(c.begin+c.took, end) - max(c.begin, begin)
	if within <= 0 {
		return 0
	}
	return float64(within) / float64(c.took)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// caller is one of the goroutines that lock. It belongs to its goroutine until that has ended; only phase and inside are
// shared.
type caller struct {
	scenario   scenario
	contestant contestant
	number     int
	limit      time.Duration // how long a caller that waits for a key may go on, from its start
	phase      *atomic.Int32
	inside     *atomic.Int32 // how many callers hold the hot key

	calls  []call
	errors int
	err    error
}

func (k *caller) run(ctx context.Context) {
	if k.scenario.hot != nil {
		k.runHot(ctx)
		return
	}
	// Each caller has a cancellable context of its own, as a request has. One context for all would make the libraries
	// that derive from it meet at its mutex.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys := newKeys(k.contestant.tag)
	for k.phase.Load() != stopping && ctx.Err() == nil {
		names := keys.next(k.scenario.keys)
		begin := time.Since(epoch)
		err := k.lockUnlock(ctx, names)
		k.count(call{begin, time.Since(epoch) - begin}, err, ctx.Err() != nil)
	}
}

func (k *caller) lockUnlock(ctx context.Context, keys []string) error {
	if len(keys) == 1 {
		return k.contestant.contender.LockUnlock(ctx, keys[0])
	}
	return k.contestant.contender.LockUnlockMany(ctx, keys)
}

func (k *caller) count(c call, err error, interrupted bool) {
	switch {
	case err != nil && interrupted:
		// The user ended it; the round is thrown away.
	case err != nil:
		k.errors++
		k.err = err
	case k.phase.Load() != warming:
		k.calls = append(k.calls, c)
	}
}

// keys makes distinct random keys cheaply, because what it costs is counted as the contender's CPU. It is not safe for
// concurrent use.
type keys struct {
	prefix string
	random *rand.ChaCha8
}

func newKeys(tag string) *keys {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	return &keys{keyPrefix(tag), rand.NewChaCha8(seed)}
}

// next returns n fresh keys: 64 random bits each. The slice is the contender's to keep.
func (k *keys) next(n int) []string {
	var (
		size = len(k.prefix) + 16
		all  = make([]byte, 0, n*size)
		out  = make([]string, n)
		bits [8]byte
	)
	for range n {
		_, _ = k.random.Read(bits[:])
		all = append(all, k.prefix...)
		all = hex.AppendEncode(all, bits[:])
	}
	text := string(all)
	for i := range out {
		out[i] = text[i*size : (i+1)*size]
	}
	return out
}
