package main

import (
	"context"
	"encoding/binary"
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
	// callers run at the same time, each one call after another, each call with so many keys of its
	// own. In hot-processes each process has so many.
	callers, keys int
	about         string
	hot           *hotLoad // nil: every call has keys of its own
	// delays are added to what the nodes say, to that of node i the one at i, and after the last
	// again the first.
	delays []time.Duration
	held   *heldLoad // nil: no leases are held meanwhile
	growth *growth   // nil: it is a table of contenders
	// level lets the recorded calls of any number of callers take the same memory, since more of it
	// makes garbage collections rarer.
	level bool
}

const (
	// frozenName is the scenario in which lockpipe runs against itself, with and without a dead
	// node.
	frozenName = "frozen"
	// hotName is the scenario in which the callers of one client wait for one key.
	hotName = "hot"
)

var scenarios = []scenario{
	{name: "one", callers: 1, keys: 1, about: "1 caller, one key a call"},
	{name: "64", callers: 64, keys: 1, about: "64 callers, one key a call"},
	{name: "512", callers: 512, keys: 1, about: "512 callers, one key a call"},
	{name: "batch", callers: 8, keys: 100, about: "8 callers, 100 keys a call"},
	{name: frozenName, callers: 64, keys: 1, about: "64 callers, one key a call, one node " +
		"stopped in every second round"},
	// The flags say how many callers hot has, and how long they hold the key.
	{name: hotName, callers: defaultHotCallers, keys: 1, hot: &hotLoad{}},
	{name: "hot16", callers: 16, keys: 1, hot: &hotLoad{own: true}},
	{
		name: processesName, callers: defaultProcessCallers, keys: 1,
		hot: &hotLoad{processes: defaultProcesses, hold: defaultProcessHold},
	},
	{
		name: "far", callers: farCallers, keys: 1, delays: allNear,
		about: "512 callers, one key a call, 1 ms added to each node",
	},
	{
		name: "mixed", callers: farCallers, keys: 1, delays: someFar,
		about: "512 callers, one key a call, 1 ms added to three nodes of five, 5 ms to two",
	},
	{name: "held", callers: 64, keys: 1, held: &heldLoad{}},
	{name: "growth-callers", growth: growthCallers, about: "one key a call"},
	{name: "growth-nodes", growth: growthNodes, about: "64 callers, one key a call"},
	{name: "growth-keys", growth: growthKeys, about: "8 callers"},
	{name: growthHeldName, held: &heldLoad{}, about: "leases that are held by automatic " +
		"extension, nothing else"},
}

// A contestant is what one line of a table stands for: a contender, and what is done to the nodes
// around its rounds.
type contestant struct {
	label, where string
	// tag begins its keys, so that those it leaves behind can be counted.
	tag       string
	contender Contender
	// Who waits in a hot scenario: caller i is one of waiters[i], again from the start after the
	// last.
	waiters       []waiter
	pace          *pace  // nil: a closed loop of acquire and release together
	nodes         *nodes // whose CPU time is read; nil if one of them can't report it
	before, after func(ctx context.Context) error
}

// settings are the flags that a measurement needs.
type settings struct {
	rounds         int
	window, warmup time.Duration
}

// round is what one contestant did in one window.
type round struct {
	// Locks were taken and given back within Window; a call over 100 keys is 100 locks. A call that
	// began before it or ended after it counts with the part of its time that lies within; but in
	// the hot scenarios a lock counts whole when it was granted, and P50, P99 and Max are of the
	// time that it was waited for.
	Locks  float64       `json:"locks"`
	Window time.Duration `json:"window_ns"`
	CPU    time.Duration `json:"client_cpu_ns"`
	// ServerCPU is that of all nodes together, 0 if they don't report it.
	ServerCPU time.Duration `json:"server_cpu_ns,omitempty"`
	// Mallocs are the allocations of this process.
	Mallocs uint64 `json:"mallocs"`
	// P50 and P99 are over the calls that ended in the window. Max also knows those that were still
	// under way at its end, and in the hot scenarios those that failed: a call that hangs must not
	// vanish.
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
	Max time.Duration `json:"max_ns"`
	// If acquire and release have separate figures, all three are of the acquire, and these of the
	// release.
	ReleaseP50 time.Duration `json:"release_p50_ns,omitempty"`
	ReleaseP99 time.Duration `json:"release_p99_ns,omitempty"`
	// MinShare is, in the hot scenarios, the locks of the caller that got the fewest over the mean
	// of all: a caller that has just given the key back is the first to be there again, and if
	// it gets it each time, most waits are short and the others get nothing.
	MinShare float64 `json:"min_share,omitempty"`
	// Jain is the index of fairness of that name: 1 if all got the same, 1/n if one of n got all.
	Jain float64 `json:"jain,omitempty"`
	// WorstP99 is the largest P99 of a caller; of one that got no lock, its Max. In hot-processes
	// these three are of processes instead of callers.
	WorstP99 time.Duration `json:"worst_p99_ns,omitempty"`
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

// mallocsPerLock is the client's allocations per lock, of which one is the key's name.
func (r round) mallocsPerLock() float64 { return ratio(float64(r.Mallocs), r.Locks) }

// clientCores and serverCores are how many processors were at work on average.
func (r round) clientCores() float64 { return ratio(r.CPU.Seconds(), r.Window.Seconds()) }

func (r round) serverCores() float64 { return ratio(r.ServerCPU.Seconds(), r.Window.Seconds()) }

// runRounds runs the rounds of one scenario: in every round each contestant once, A B C A B C ...,
// so that whatever else the machine does in the meantime falls on all of them.
func runRounds(ctx context.Context, s scenario, all []contestant, set settings) ([][]round, error) {
	rounds := make([][]round, len(all))
	for range set.rounds {
		for i, c := range all {
			if c.before != nil {
				if err := c.before(ctx); err != nil {
					return nil, fmt.Errorf("%s: %w", c.label, err)
				}
			}
			r, failed := measureAnywhere(ctx, s, c, set)
			if c.after != nil {
				// Not on ctx: an interrupt must not leave a node stopped.
				if err := c.after(context.WithoutCancel(ctx)); err != nil {
					return nil, fmt.Errorf("%s: %w", c.label, err)
				}
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if failed != nil {
				return nil, fmt.Errorf("%s: %w", c.label, failed)
			}
			rounds[i] = append(rounds[i], r)
		}
	}
	return rounds, nil
}

// measureAnywhere measures in this process or, if the scenario wants it, in several.
func measureAnywhere(ctx context.Context, s scenario, c contestant, set settings) (round, error) {
	if s.hot != nil && s.hot.processes > 0 {
		return measureProcesses(ctx, s, c, set)
	}
	return measure(ctx, s, c, set), nil
}

const (
	warming int32 = iota
	measuring
	stopping
)

// measure lets the callers run through a warm-up and a window without a break. What is cut off at
// the window's edges counts in part: with eight callers of a hundred keys each, whole calls would
// be too coarse.
func measure(ctx context.Context, s scenario, c contestant, set settings) round {
	callers, begin, end := load(ctx, s, c, set)
	r := total(callers, begin.at, end.at)
	r.setUsage(begin, end)
	return r
}

// load is the part of measure in which the callers run. It returns what was used until the window
// began, and until it ended.
func load(ctx context.Context, s scenario, c contestant, set settings) (callers []caller, begin,
	end usage,
) {
	// The garbage of the one before is not this one's to collect.
	runtime.GC()
	var (
		phase  atomic.Int32
		wg     sync.WaitGroup
		inside atomic.Int32
	)
	callers = make([]caller, s.callers)
	for i := range callers {
		callers[i] = caller{
			scenario: s, contestant: c, number: i, limit: set.warmup + set.window + drain,
			phase: &phase, inside: &inside, calls: make([]call, 0, s.callCapacity()),
		}
		wg.Go(func() { callers[i].run(ctx) })
	}
	sleep(ctx, set.warmup)
	begin = usageNow()
	phase.Store(measuring)
	begin.servers, begin.known = c.nodes.cpu(ctx)
	sleep(ctx, set.window)
	end = usageNow()
	end.servers, end.known = c.nodes.cpu(ctx)
	phase.Store(stopping)
	wg.Wait()
	return callers, begin, end
}

// callCapacity is how many calls a caller has memory for from the start.
func (s scenario) callCapacity() int {
	if s.level {
		return (1 << 20) / s.callers
	}
	return 1024
}

// total adds the callers' calls up to one round, which lasted from begin to end.
func total(callers []caller, begin, end time.Duration) round {
	r := round{Window: end - begin}
	var took, released []time.Duration
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
		for _, c := range k.releases {
			if done := c.begin + c.took; done > begin && done <= end {
				released = append(released, c.took)
			}
		}
		r.Locks += shares[i]
		r.Errors += k.errors
		if k.err != nil && r.AnError == "" {
			r.AnError = k.err.Error()
		}
	}
	if len(callers) > 0 && callers[0].scenario.hot != nil {
		r.MinShare = ratio(slices.Min(shares)*float64(len(shares)), r.Locks)
		r.Jain = jain(shares)
		for i := range callers {
			r.WorstP99 = max(r.WorstP99, callers[i].p99(begin, end))
			r.Max = max(r.Max, callers[i].failed)
		}
	}
	slices.Sort(took)
	slices.Sort(released)
	r.P50, r.P99 = percentile(took, 50), percentile(took, 99)
	r.ReleaseP50, r.ReleaseP99 = percentile(released, 50), percentile(released, 99)
	return r
}

// call is one call that succeeded. Begin is the time since epoch: without a pointer in it, the
// garbage collector does not walk through a fast contender's many calls.
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

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// caller is one of the goroutines that lock. It belongs to its goroutine until that has ended; only
// phase and inside are shared.
type caller struct {
	scenario   scenario
	contestant contestant
	number     int
	limit      time.Duration // how long a caller that waits for a key may go on, from its start
	phase      *atomic.Int32
	inside     *atomic.Int32 // how many callers hold the hot key

	calls    []call
	releases []call // if they have figures of their own
	errors   int
	err      error
	failed   time.Duration // the longest call that failed
}

func (k *caller) run(ctx context.Context) {
	switch {
	case k.scenario.hot != nil:
		k.runHot(ctx)
		return
	case k.contestant.pace != nil:
		k.runPaced(ctx)
		return
	}
	// Each caller has a cancellable context of its own, as a request has. One context for all would
	// make the libraries that derive from it meet at its mutex.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys := newKeys(k.contestant.tag)
	for k.phase.Load() != stopping && ctx.Err() == nil {
		begin, err := k.lockUnlock(ctx, keys)
		k.count(call{begin, time.Since(epoch) - begin}, err, ctx.Err() != nil)
	}
}

// lockUnlock makes one call, and says when that began: with its keys made.
func (k *caller) lockUnlock(ctx context.Context, keys *keys) (begin time.Duration, err error) {
	if k.scenario.keys == 1 {
		key := keys.one()
		begin = time.Since(epoch)
		return begin, k.contestant.contender.LockUnlock(ctx, key)
	}
	names := keys.next(k.scenario.keys)
	begin = time.Since(epoch)
	return begin, k.contestant.contender.LockUnlockMany(ctx, names)
}

func (k *caller) count(c call, err error, interrupted bool) {
	switch {
	case err != nil && interrupted:
		// The user ended it; the round is thrown away.
	case err != nil:
		k.errors++
		k.err = err
		k.failed = max(k.failed, c.took)
	case k.phase.Load() != warming:
		k.calls = append(k.calls, c)
	}
}

// keys makes distinct random keys cheaply, because what it costs is counted as the contender's CPU.
// It is not safe for concurrent use.
type keys struct {
	prefix string
	random *rand.ChaCha8
	text   []byte // what the next names are written to
}

func newKeys(tag string) *keys {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	return &keys{prefix: keyPrefix(tag), random: rand.NewChaCha8(seed)}
}

// one returns one fresh key. It costs one allocation, the key.
func (k *keys) one() string {
	k.text = k.text[:0]
	k.write()
	return string(k.text)
}

// next returns n fresh keys: 64 random bits each. The slice is the contender's to keep.
func (k *keys) next(n int) []string {
	var (
		size = len(k.prefix) + 16
		out  = make([]string, n)
	)
	k.text = k.text[:0]
	for range n {
		k.write()
	}
	text := string(k.text)
	for i := range out {
		out[i] = text[i*size : (i+1)*size]
	}
	return out
}

// write adds a fresh key to the text.
func (k *keys) write() {
	var bits [8]byte
	binary.LittleEndian.PutUint64(bits[:], k.random.Uint64())
	k.text = append(k.text, k.prefix...)
	k.text = hex.AppendEncode(k.text, bits[:])
}
