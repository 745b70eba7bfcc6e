package sim

import (
	"math/rand/v2"
	"time"

	"github.com/lockpipe/lockpipe"
)

const (
	nodes = 5
	// maxTTL is long enough that a key that should have been deleted is still there when the run
	// checks for it.
	maxTTL = 15 * time.Second
	prefix = "sim:"
)

// Mix says what may happen in a run, in addition to the usual faults. Some seeds draw the same
// without being asked, except for Admitting, Blind and Long.
type Mix struct {
	// Forgetful lets nodes lose their data: they restart without memory, give way to a replica that
	// has nothing, or run FLUSHALL.
	Forgetful bool
	// Admitting has no restart guard. Without memory leases can neither be exclusive nor be backed
	// by a quorum, so other runs check that. This one checks that no extension is confirmed if
	// another holder has had the key meanwhile and the client had to notice.
	Admitting bool
	// Blind does not look into the nodes while leases are held. A fault has to show in what callers
	// see.
	Blind bool
	// Long makes leases long and lets clients last, so that keys that are left behind can be seen.
	Long bool
	// Rough lets connections break often while messages are slow. Many commands then have an
	// unknown outcome and arrive late.
	Rough bool
	// Returning injects faults while connections are lost and made, and commands that still arrive
	// on old connections.
	Returning bool
	// Fenced lets callers ask for fences, and clocks differ. Half of all seeds draw it.
	Fenced bool
	// Aliased lets names lead to the servers of other nodes.
	Aliased bool
	// Restored restores disks from copies, if nodes lose data.
	Restored bool
	// Demoted turns nodes into replicas, if nodes lose data.
	Demoted bool
	// Brief lets clients live for less than MaxTTL, if nodes lose data.
	Brief bool
	// Stopped suspends all clients together.
	Stopped bool
	// Busy has many callers of many keys, so that several trips to a node are under way together.
	Busy bool
	// Stalled lets goroutines of clients stall between two steps.
	Stalled bool
	// Newer lets some nodes have the commands of newer servers.
	Newer bool
	// Kept lets holders end leases by Keep.
	Kept bool
	// Handed lets callers adopt keys that others have kept, or whose handles they know.
	Handed bool
	// Any lets callers want any of some keys.
	Any bool
	// Grouped has several groups of nodes.
	Grouped bool
	// Moving has fleets that move from layout to layout. Then nodes lose no data.
	Moving bool
	// Turning lets two servers take turns behind the names of nodes, if nodes lose data.
	Turning bool
	// Varied gives clients another NodeTimeout each, and another MaxTTL, if nodes lose data.
	Varied bool
	// Clocked sets clocks of nodes that wait, if nodes lose data.
	Clocked bool
	// Simple has nodes that know no tracking.
	Simple bool
	// Observed has programs that only look at the nodes.
	Observed bool
	// Virgin has nodes that are used for the first time. One of them loses its data meanwhile.
	Virgin bool
	// Clustered makes the nodes the servers of one Redis Cluster, whose slots move and whose
	// masters are replaced.
	Clustered bool
}

// Plan holds what a seed has drawn for a run.
type Plan struct {
	mix          Mix
	clients      int
	callers      int // of each client
	keys         int
	length       time.Duration
	minTTL       time.Duration
	maxTTL       time.Duration
	timeout      time.Duration // NodeTimeout
	latency      time.Duration // one way, about
	spikes       uint64        // of 100 messages take up to spike longer
	spike        time.Duration
	thinkTime    time.Duration // between two calls of one caller, on average
	faultEvery   time.Duration // between two faults, on average; 0: none
	restartEvery time.Duration // between two ends of a client, on average; 0: never
	// Data on a newer connection may overtake what was sent on an older one.
	reorderAcrossConns bool

	clientMaxTTL time.Duration // Config.MaxTTL, and so the length of a quarantine
	guard        lockpipe.GuardMode
	lossEvery    time.Duration // between two losses of data, on average; 0: none
	durableNodes int           // how many nodes keep their data when they restart

	fencedPercent int           // of 100 calls that acquire, how many ask for a fence
	clockSkew     time.Duration // by how much the wall clocks of clients may differ

	hangAtEnd    time.Duration // how long a node reads nothing at the end; 0: none does
	replacements bool          // empty servers replace nodes; clients reconnect during FLUSHALL
	resetPercent int           // of 100 extensions by hand, how many lose all connections

	aliasEvery   time.Duration // between two wrong names, on average; 0: none
	hiddenNodes  int           // how many nodes do not show their run_id
	restores     bool          // durable nodes restart with older copies of their data
	demotes      bool          // nodes become replicas
	suspendEvery time.Duration // between two suspensions, on average; 0: none

	nestedPercent int // of 100 leases, during how many the holder asks for more keys

	stalls int64 // of 1000 chances, how often a goroutine of a client stalls

	newerNodes  int // how many nodes have MSETEX and DELIFEQ
	simpleNodes int // how many nodes know no tracking

	turns    bool // two servers take turns behind the name of a node
	varied   bool // clients differ in their NodeTimeout
	mixed    bool // clients differ in their MaxTTL
	clocks   bool // clocks of nodes that wait are set
	observes bool // programs look at the nodes
	virgin   bool // no node was ever used, and one loses its data meanwhile
	heldUp   bool // then the second client comes late: see holdUp

	keptPercent int // of 100 leases, how many are kept instead of released
	// Of 100 calls, how many adopt keys, and of 100 leases, how many handles are known before Keep.
	adoptPercent int
	anyPercent   int // of 100 calls, how many want any of some keys

	slots       int           // of the Redis Cluster that clients use; 0: the nodes are in none
	masters     int           // how many servers of it are masters at first
	replicaOf   [nodes]int    // whose replicas the others are
	movesOnly   bool          // nothing happens to the cluster but that slots move
	shardEvery  time.Duration // between two faults of the cluster, on average
	gossipEvery time.Duration // between two times when servers hear of each other, on average
	copyEvery   time.Duration // between two copies to replicas, on average
	nodeTimeout time.Duration // after what time a server that is cut off notices it

	layouts []nodeGroups // that the fleet uses, one after the other; nil: one group of all nodes
}

func newPlan(rng *rand.Rand, mix Mix) *Plan {
	oneOf := func(choices ...time.Duration) time.Duration { return choices[rng.IntN(len(choices))] }
	p := &Plan{
		mix:     mix,
		clients: 2 + rng.IntN(3),
		callers: 1 + rng.IntN(4),
		keys:    1 + rng.IntN(4),
		length:  5*time.Second + below(rng, 20*time.Second),
		timeout: oneOf(20*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond),
		latency: oneOf(100*time.Microsecond, time.Millisecond, 5*time.Millisecond,
			20*time.Millisecond),
		spikes:             uint64(rng.IntN(10)),
		spike:              oneOf(10*time.Millisecond, 60*time.Millisecond, 150*time.Millisecond),
		thinkTime:          oneOf(5*time.Millisecond, 50*time.Millisecond, 200*time.Millisecond),
		faultEvery:         oneOf(0, 100*time.Millisecond, 500*time.Millisecond, 2*time.Second),
		restartEvery:       oneOf(0, 0, 3*time.Second, 10*time.Second),
		reorderAcrossConns: rng.IntN(4) == 0,
	}
	p.minTTL = oneOf(10*time.Millisecond, 60*time.Millisecond, 200*time.Millisecond, time.Second)
	p.maxTTL = max(p.minTTL, oneOf(200*time.Millisecond, time.Second, 5*time.Second, maxTTL))
	if mix.Rough || rng.IntN(8) == 0 {
		p.restartEvery, p.reorderAcrossConns, p.faultEvery = 0, true, 100*time.Millisecond
		p.latency, p.spike, p.timeout = 20*time.Millisecond, 150*time.Millisecond,
			100*time.Millisecond
		p.minTTL, p.maxTTL = 200*time.Millisecond, 5*time.Second
	}
	if mix.Long {
		p.restartEvery, p.reorderAcrossConns, p.faultEvery = 0, false, 500*time.Millisecond
		p.minTTL, p.maxTTL = maxTTL/2, maxTTL
	}
	p.clientMaxTTL = maxTTL
	if forgetful := rng.IntN(3) == 0; mix.Forgetful || forgetful && !mix.Long {
		p.drawDataLoss(rng, oneOf)
	}
	return p
}

// drawDataLoss lets nodes lose their data. Losses are rare enough that a quorum is out of
// quarantine most of the time. Leases last for nearly a whole quarantine.
func (p *Plan) drawDataLoss(rng *rand.Rand, oneOf func(...time.Duration) time.Duration) {
	if p.mix.Admitting {
		p.guard, p.lossEvery = lockpipe.GuardOff, oneOf(300*time.Millisecond, 1500*time.Millisecond)
		return
	}
	p.clientMaxTTL = oneOf(500*time.Millisecond, time.Second, 3*time.Second)
	p.lossEvery = oneOf(p.clientMaxTTL/2, p.clientMaxTTL, 3*p.clientMaxTTL) + time.Second
	p.length += p.clientMaxTTL
	p.minTTL, p.maxTTL = min(p.minTTL, p.clientMaxTTL/2), p.clientMaxTTL
	if rng.IntN(2) == 0 {
		p.minTTL = p.clientMaxTTL / 2
	}
	if rng.IntN(3) == 0 {
		p.guard = lockpipe.GuardStrict
	}
	p.durableNodes = max(0, rng.IntN(2*nodes)-nodes)
}

// drawFencing lets callers ask for fences. When nodes lose data, they lose the fences too, and only
// clocks keep the order: docs/fencing.md says how far they may differ. Without the restart guard
// they may hardly differ.
func (p *Plan) drawFencing(rng *rand.Rand) {
	if chosen := rng.IntN(2) == 0; p.mix.Admitting || !chosen && !p.mix.Fenced {
		return
	}
	p.fencedPercent = []int{30, 70, 100}[rng.IntN(3)]
	skews := []time.Duration{0, time.Millisecond, time.Second, 10 * time.Minute}
	if p.lossEvery > 0 {
		skews = []time.Duration{0, time.Millisecond, p.clientMaxTTL / 4, p.clientMaxTTL*3/4 - 1}
	}
	p.clockSkew = skews[rng.IntN(len(skews))]
}

// drawReconnects draws what may happen while connections are lost and made. It has random numbers
// of its own, so that the other draws of a seed stay as they are.
func (p *Plan) drawReconnects(rng *rand.Rand) {
	switch chosen := rng.IntN(4) == 0; {
	case !chosen && !p.mix.Returning:
	case p.mix.Long:
		p.hangAtEnd = p.length/2 + below(rng, p.length/2)
	case p.lossEvery > 0 && p.guard != lockpipe.GuardOff:
		p.replacements = true
		p.minTTL, p.maxTTL, p.lossEvery = p.clientMaxTTL*3/4, p.clientMaxTTL, 2*p.clientMaxTTL
		p.length += 4 * p.clientMaxTTL
	case p.lossEvery == 0 && p.reorderAcrossConns:
		// Without the run_id a client does not end its previous connection, and a server may read
		// from that later.
		p.guard, p.hiddenNodes, p.resetPercent = lockpipe.GuardOff, nodes, 50
	}
}

// wants reports whether a kind of fault is drawn: in all runs of a mix that asks for it, and in a
// quarter of those whose mix asks for nothing.
func (p *Plan) wants(rng *rand.Rand, asked bool) bool {
	chosen := rng.IntN(4) == 0
	return asked || chosen && p.mix == Mix{}
}

// drawAliases draws names that lead to the servers of other nodes. Like the functions below it has
// random numbers of its own, so that the other draws of a seed stay as they are.
func (p *Plan) drawAliases(rng *rand.Rand) {
	if !p.wants(rng, p.mix.Aliased) {
		return
	}
	times := []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}
	p.aliasEvery = times[rng.IntN(len(times))]
	if rng.IntN(2) == 0 { // a name gets a connection to its new server during an attempt
		p.latency, p.timeout = min(p.latency, 5*time.Millisecond), 100*time.Millisecond
	}
	if p.lossEvery > 0 {
		return // without its run_id a node can't be guarded
	}
	if rng.IntN(2) == 0 {
		p.guard = lockpipe.GuardOff
	}
	if p.hiddenNodes = max(0, rng.IntN(2*nodes+1)-nodes); p.guard == lockpipe.GuardAuto {
		// The guard refuses a name that leads to a server that shows its run_id, and then to one
		// that does not.
		p.hiddenNodes -= p.hiddenNodes % nodes
	}
}

// drawRestores draws disks that are restored from copies.
func (p *Plan) drawRestores(rng *rand.Rand) {
	if p.wants(rng, p.mix.Restored) && p.losesGuardedly() {
		p.restores, p.durableNodes = true, 3+rng.IntN(nodes-2)
		p.length += 4 * p.clientMaxTTL
	}
}

// drawDemotions draws nodes that become replicas.
func (p *Plan) drawDemotions(rng *rand.Rand) {
	p.demotes = p.wants(rng, p.mix.Demoted) && p.losesGuardedly() && !p.restores
}

// losesGuardedly reports whether nodes lose data in the usual ways, and there is a restart guard to
// notice.
func (p *Plan) losesGuardedly() bool {
	return p.lossEvery > 0 && p.guard != lockpipe.GuardOff && !p.replacements
}

// drawBriefClients draws clients that live for less than MaxTTL, one after another.
func (p *Plan) drawBriefClients(rng *rand.Rand) {
	if !p.wants(rng, p.mix.Brief) || !p.losesGuardedly() || p.restores {
		return
	}
	p.clientMaxTTL = time.Duration(3+rng.IntN(4)) * time.Second
	p.minTTL, p.maxTTL, p.lossEvery = p.clientMaxTTL*3/4, p.clientMaxTTL, p.clientMaxTTL
	p.restartEvery = p.clientMaxTTL / 3
	p.length += 4 * p.clientMaxTTL
}

// drawSuspensions draws suspensions of all clients.
func (p *Plan) drawSuspensions(rng *rand.Rand) {
	if p.wants(rng, p.mix.Stopped) {
		times := []time.Duration{300 * time.Millisecond, time.Second, 4 * time.Second}
		p.suspendEvery = times[rng.IntN(len(times))]
	}
}

// lateDelay is how much longer data takes that was sent on a connection before it broke.
func (p *Plan) lateDelay() time.Duration {
	if p.resetPercent > 0 {
		return time.Second
	}
	return 4 * p.spike
}

// below returns a random time below d.
func below(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}

// around returns a random time that is d on average; short ones are more likely.
func around(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(min(rng.ExpFloat64(), 8)*float64(d)) + 1
}

// drawTTL returns a TTL for a lease.
func (p *Plan) drawTTL(rng *rand.Rand) time.Duration {
	return p.minTTL + time.Duration(rng.Int64N(int64(p.maxTTL-p.minTTL)+1))
}

// drawNesting draws holders that ask for more keys.
func (p *Plan) drawNesting(rng *rand.Rand) {
	if p.wants(rng, false) {
		p.nestedPercent = 30
	}
}

// drawCrowds draws many callers of many keys.
func (p *Plan) drawCrowds(rng *rand.Rand) {
	if !p.wants(rng, p.mix.Busy) {
		return
	}
	p.clients, p.callers, p.keys = 2, 8+rng.IntN(16), 20+rng.IntN(40)
	if p.hangAtEnd == 0 && !p.restores {
		p.length = min(p.length, 2*time.Second+below(rng, 4*time.Second))
	}
	p.thinkTime = min(p.thinkTime, 50*time.Millisecond)
}

// drawStalls draws goroutines of clients that stall.
func (p *Plan) drawStalls(rng *rand.Rand) {
	if p.wants(rng, p.mix.Stalled) {
		p.stalls = []int64{2, 10, 30}[rng.IntN(3)]
	}
}

// drawNewerServers draws nodes with the commands of newer servers: all, or some.
func (p *Plan) drawNewerServers(rng *rand.Rand) {
	if p.wants(rng, p.mix.Newer) {
		p.newerNodes = min(nodes, 1+rng.IntN(2*nodes))
	}
}

// drawKeeping draws holders that keep their keys.
func (p *Plan) drawKeeping(rng *rand.Rand) {
	if p.wants(rng, p.mix.Kept) {
		p.keptPercent = 20
	}
}

// drawAny draws callers that want any of some keys.
func (p *Plan) drawAny(rng *rand.Rand) {
	if p.wants(rng, p.mix.Any) {
		p.anyPercent = []int{10, 40, 90}[rng.IntN(3)]
	}
}

// drawHandovers draws callers that adopt the keys of others.
func (p *Plan) drawHandovers(rng *rand.Rand) {
	if p.wants(rng, p.mix.Handed) {
		p.keptPercent, p.adoptPercent = []int{30, 60}[rng.IntN(2)], []int{20, 50}[rng.IntN(2)]
	}
}
