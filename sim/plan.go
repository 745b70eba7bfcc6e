package sim

import (
	"math/rand/v2"
	"time"

	"github.com/lockpipe/lockpipe"
)

const (
	nodes = 5
	// maxTTL is long enough that a key that should have been deleted is still there when the run
	// looks.
	maxTTL = 15 * time.Second
	prefix = "sim:"
)

// Mix says what may happen in a run besides the usual faults.
type Mix struct {
	// Forgetful lets nodes restart without memory, give way to a replica that knows nothing, and
	// lose their keys by FLUSHALL. Some seeds do so anyway.
	Forgetful bool
	// Admitting has no restart guard, and leaves it to other runs to look whether leases are
	// disjoint and backed by a quorum, which can't be without memory: what is still looked at is
	// that no extension is confirmed when another has held the key meanwhile.
	Admitting bool
	// Blind does not look into the nodes while leases are held: what is wrong has to show in what
	// callers see.
	Blind bool
	// Long makes leases long and lets clients last, so that what is left behind can be seen.
	Long bool
	// Rough lets connections break often while messages are slow, so that much of what was sent is
	// in doubt and arrives late. Some seeds do so anyway.
	Rough bool
	// Returning lets things happen while connections are lost and made, and behind ones that were.
	// Some seeds do so anyway.
	Returning bool
	// Fenced lets callers ask for fences, and clocks differ. Half of the seeds do so anyway.
	Fenced bool
	// Aliased lets names lead to the servers of other nodes. Some seeds do so anyway.
	Aliased bool
	// Restored puts back disks from copies, where nodes forget. Some seeds do so anyway.
	Restored bool
	// Demoted makes replicas of nodes, where nodes forget. Some seeds do so anyway.
	Demoted bool
	// Brief lets clients live for less than MaxTTL, where nodes forget. Some seeds do so anyway.
	Brief bool
	// Stopped suspends all clients together. Some seeds do so anyway.
	Stopped bool
}

// Plan is what a seed makes of a run.
type Plan struct {
	mix     Mix
	clients int
	callers int // of each client
	keys    int
	length  time.Duration
	minTTL  time.Duration
	maxTTL  time.Duration
	timeout time.Duration // NodeTimeout
	latency time.Duration // one way, about
	spikes  uint64        // of 100 messages take up to spike longer
	spike   time.Duration
	think   time.Duration // between two calls of one caller, on average
	faults  time.Duration // between two faults, on average; 0: there are none
	restart time.Duration // between two ends of a client, on average; 0: it lasts
	// What was sent on an old connection may be overtaken by what is sent on a newer one.
	crossed bool

	longest time.Duration // MaxTTL, and so how long a node that forgot is quarantined
	guard   lockpipe.GuardMode
	forget  time.Duration // between two losses of a node's memory, on average; 0: there are none
	durable int           // how many nodes keep their memory when they restart

	fenced int           // of 100 calls that acquire, how many ask for a fence
	skew   time.Duration // by how much the wall clocks of clients may differ

	hang    time.Duration // for how long one node reads nothing at the end; 0: none does
	reserve bool          // older servers replace nodes, and flushes meet clients that come back
	broken  int           // of 100 extensions by hand, how many lose all connections meanwhile

	aliases  time.Duration // between two names that lead to another node, on average; 0: none do
	hidden   int           // how many nodes do not show their run_id
	restores bool          // durable nodes restart with copies of their memory
	flaps    bool          // and connections to two of them last less than a second
	demotes  bool          // nodes become replicas
	stops    time.Duration // between two suspensions of all clients, on average; 0: there are none
}

func newPlan(rng *rand.Rand, mix Mix) *Plan {
	one := func(choices ...time.Duration) time.Duration { return choices[rng.IntN(len(choices))] }
	p := &Plan{
		mix:     mix,
		clients: 2 + rng.IntN(3),
		callers: 1 + rng.IntN(4),
		keys:    1 + rng.IntN(4),
		length:  5*time.Second + below(rng, 20*time.Second),
		timeout: one(20*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond),
		latency: one(100*time.Microsecond, time.Millisecond, 5*time.Millisecond,
			20*time.Millisecond),
		spikes:  uint64(rng.IntN(10)),
		spike:   one(10*time.Millisecond, 60*time.Millisecond, 150*time.Millisecond),
		think:   one(5*time.Millisecond, 50*time.Millisecond, 200*time.Millisecond),
		faults:  one(0, 100*time.Millisecond, 500*time.Millisecond, 2*time.Second),
		restart: one(0, 0, 3*time.Second, 10*time.Second),
		crossed: rng.IntN(4) == 0,
	}
	p.minTTL = one(10*time.Millisecond, 60*time.Millisecond, 200*time.Millisecond, time.Second)
	p.maxTTL = max(p.minTTL, one(200*time.Millisecond, time.Second, 5*time.Second, maxTTL))
	if mix.Rough || rng.IntN(8) == 0 {
		p.restart, p.crossed, p.faults = 0, true, 100*time.Millisecond
		p.latency, p.spike, p.timeout = 20*time.Millisecond, 150*time.Millisecond,
			100*time.Millisecond
		p.minTTL, p.maxTTL = 200*time.Millisecond, 5*time.Second
	}
	if mix.Long {
		p.restart, p.crossed, p.faults = 0, false, 500*time.Millisecond
		p.minTTL, p.maxTTL = maxTTL/2, maxTTL
	}
	p.longest = maxTTL
	if forgetful := rng.IntN(3) == 0; mix.Forgetful || forgetful && !mix.Long {
		p.forgetting(rng, one)
	}
	return p
}

// forgetting lets nodes lose their memory: seldom enough that most of the time a quorum has done
// its quarantine, and with leases that last for nearly all of it.
func (p *Plan) forgetting(rng *rand.Rand, one func(...time.Duration) time.Duration) {
	if p.mix.Admitting {
		p.guard, p.forget = lockpipe.GuardOff, one(300*time.Millisecond, 1500*time.Millisecond)
		return
	}
	p.longest = one(500*time.Millisecond, time.Second, 3*time.Second)
	p.forget = one(p.longest/2, p.longest, 3*p.longest)
	p.length += p.longest
	p.minTTL, p.maxTTL = min(p.minTTL, p.longest/2), p.longest
	if rng.IntN(2) == 0 {
		p.minTTL = p.longest / 2
	}
	if rng.IntN(3) == 0 {
		p.guard = lockpipe.GuardStrict
	}
	p.durable = max(0, rng.IntN(2*nodes)-nodes)
}

// fencing lets callers ask for fences. Where nodes forget, and with them what fences there were,
// only clocks keep the order: docs/fencing.md says how far they may differ. Without the restart
// guard they may hardly do so.
func (p *Plan) fencing(rng *rand.Rand) {
	if chosen := rng.IntN(2) == 0; p.mix.Admitting || !chosen && !p.mix.Fenced {
		return
	}
	p.fenced = []int{30, 70, 100}[rng.IntN(3)]
	skews := []time.Duration{0, time.Millisecond, time.Second, 10 * time.Minute}
	if p.forget > 0 {
		skews = []time.Duration{0, time.Millisecond, p.longest / 4, p.longest*3/4 - 1}
	}
	p.skew = skews[rng.IntN(len(skews))]
}

// returning draws what may happen while connections are lost and made. It has random numbers of its
// own, so that the other draws of a seed stay as they are.
func (p *Plan) returning(rng *rand.Rand) {
	switch chosen := rng.IntN(4) == 0; {
	case !chosen && !p.mix.Returning:
	case p.mix.Long:
		p.hang = p.length/2 + below(rng, p.length/2)
	case p.forget > 0 && p.guard != lockpipe.GuardOff:
		p.reserve = true
		// An age in whole seconds tells nothing about less.
		p.longest = max(p.longest, 6*time.Second)
		p.minTTL, p.maxTTL, p.forget = p.longest*3/4, p.longest, 2*p.longest
		p.length += 4 * p.longest
	case p.forget == 0 && p.crossed:
		// Without the guard no client ends its former connection, and a server may read that later.
		p.guard, p.broken = lockpipe.GuardOff, 50
	}
}

// draws reports whether a kind of fault is drawn: in all runs of a mix that asks for it, and in a
// quarter of those whose mix asks for nothing.
func (p *Plan) draws(rng *rand.Rand, asked bool) bool {
	chosen := rng.IntN(4) == 0
	return asked || chosen && p.mix == Mix{}
}

// aliasing draws names that lead to the servers of other nodes. Like those below it has random
// numbers of its own, so that the other draws of a seed stay as they are.
func (p *Plan) aliasing(rng *rand.Rand) {
	if !p.draws(rng, p.mix.Aliased) {
		return
	}
	times := []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}
	p.aliases = times[rng.IntN(len(times))]
	if rng.IntN(2) == 0 { // a name has a connection to its new server while an attempt goes on
		p.latency, p.timeout = min(p.latency, 5*time.Millisecond), 100*time.Millisecond
	}
	if p.forget > 0 {
		return // without its run_id a node can't be guarded
	}
	if rng.IntN(2) == 0 {
		p.guard = lockpipe.GuardOff
	}
	p.hidden = max(0, rng.IntN(2*nodes+1)-nodes)
}

// restoring draws disks that are put back from copies. A copy has to be ten seconds old.
func (p *Plan) restoring(rng *rand.Rand) {
	if !p.draws(rng, p.mix.Restored) || !p.guarded() {
		return
	}
	p.restores, p.flaps = true, rng.IntN(2) == 0
	p.durable = 3 + rng.IntN(nodes-2)
	p.forget = 3 * time.Second
	p.length = 25*time.Second + below(rng, 25*time.Second)
}

// demoting draws nodes that become replicas.
func (p *Plan) demoting(rng *rand.Rand) {
	p.demotes = p.draws(rng, p.mix.Demoted) && p.guarded() && !p.restores
}

// guarded reports whether nodes forget, and the restart guard is there to notice; by the usual
// losses.
func (p *Plan) guarded() bool {
	return p.forget > 0 && p.guard != lockpipe.GuardOff && !p.reserve
}

// briefly draws clients that live for less than MaxTTL, one after another. A second of each wait is
// not shared.
func (p *Plan) briefly(rng *rand.Rand) {
	if !p.draws(rng, p.mix.Brief) || !p.guarded() || p.restores {
		return
	}
	p.longest = time.Duration(3+rng.IntN(4)) * time.Second
	p.minTTL, p.maxTTL, p.forget = p.longest*3/4, p.longest, p.longest
	p.restart = p.longest / 3
	p.length += 4 * p.longest
}

// stopping draws suspensions of all clients.
func (p *Plan) stopping(rng *rand.Rand) {
	if p.draws(rng, p.mix.Stopped) {
		times := []time.Duration{300 * time.Millisecond, time.Second, 4 * time.Second}
		p.stops = times[rng.IntN(len(times))]
	}
}

// lag is how much longer something takes that was sent on a connection that broke.
func (p *Plan) lag() time.Duration {
	if p.broken > 0 {
		return time.Second
	}
	return 4 * p.spike
}

// below is a random time below d.
func below(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(
		rng.Int64N(int64(d)))
}

// around is a random time that is d on average; short ones are more likely.
func around(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(min(rng.ExpFloat64(), 8)*float64(d)) + 1
}

// ttl is a TTL for a lease.
func (p *Plan) ttl(rng *rand.Rand) time.Duration {
	return p.minTTL + time.Duration(rng.Int64N(int64(p.maxTTL-p.minTTL)+1))
}
