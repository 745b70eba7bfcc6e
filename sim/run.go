// Package sim runs whole lockpipe clients against nodes in memory, in virtual time. It injects
// faults of networks, nodes, clocks and processes, and checks that leases exclude each other.
//
// Everything follows from a seed. Each caller and each client has random numbers of its own. What
// happens to a message depends on the seed, the link and the virtual time alone. A run repeats
// exactly, as far as Go allows it. When two things happen at the same nanosecond, the scheduler
// chooses their order; a select or a map in the code under test has random numbers of its own. The
// tests make that rare enough to demand repetition: they set GOMAXPROCS=1, run without the race
// detector, and let lockpipe draw its delays from package simrand.
package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/cluster"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/lockpipe/lockpipe/sim/simrand"
)

// Report is the result of a run.
type Report struct {
	Seed       uint64
	Violations []string
	Hash       uint64        // of the history
	Holds      int           // leases acquired
	Calls      int           // that acquire, extend or release
	Clients    time.Duration // virtual time, times the clients
	Plan       string
	Trace      []string // the history
}

// run is one simulation in progress.
type run struct {
	seed         uint64
	plan         *Plan
	end          time.Time
	addresses    []string
	entries      []string      // what clients get as nodes: addresses, or the URL of a cluster
	names        []string      // of the nodes that clients make of these
	cluster      *redisCluster // nil: the nodes are in none
	nodes        []*memorynode.Node
	twins        []*memorynode.Node                 // that take turns with them; nil: none do
	serving      []*atomic.Pointer[memorynode.Node] // to which the name of each node leads
	frozenUntil  []*atomicTime                      // until when each node is frozen
	processes    []*process
	noStartUntil atomicTime        // until when no client is started
	promotedAt   [nodes]atomicTime // when each node was promoted
	allKnew      atomic.Bool       // before the last loss all clients knew all nodes
	history      *history
	closedEarly  atomic.Bool // a Close did not wait for its releases
}

// Run simulates one seed and reports what it found.
func Run(t *testing.T, seed uint64, mix Mix) (report Report) {
	simrand.Seed(seed)
	defer func() {
		if p := recover(); p != nil {
			panic(fmt.Sprintf("seed %d: %v", seed, p)) // synctest's, about goroutines that are left
		}
	}()
	synctest.Test(t, func(*testing.T) {
		rng := rand.New(rand.NewPCG(seed, 0))
		plan := newPlan(rng, mix)
		plan.drawFencing(rand.New(rand.NewPCG(seed, 3)))
		// For the seeds in testdata/seeds none of these draws anything, so they keep their meaning.
		plan.drawReconnects(rand.New(rand.NewPCG(seed, 12)))
		plan.drawAliases(rand.New(rand.NewPCG(seed, 17)))
		plan.drawRestores(rand.New(rand.NewPCG(seed, 18)))
		plan.drawDemotions(rand.New(rand.NewPCG(seed, 19)))
		plan.drawSuspensions(rand.New(rand.NewPCG(seed, 20)))
		plan.drawBriefClients(rand.New(rand.NewPCG(seed, 21)))
		plan.drawNesting(rand.New(rand.NewPCG(seed, 22)))
		plan.drawCrowds(rand.New(rand.NewPCG(seed, 28)))
		plan.drawStalls(rand.New(rand.NewPCG(seed, 24)))
		plan.drawNewerServers(rand.New(rand.NewPCG(seed, 31)))
		plan.drawKeeping(rand.New(rand.NewPCG(seed, 32)))
		plan.drawHandovers(rand.New(rand.NewPCG(seed, 44)))
		plan.drawAny(rand.New(rand.NewPCG(seed, 33)))
		plan.drawTurns(rand.New(rand.NewPCG(seed, 35)))
		plan.drawVaried(rand.New(rand.NewPCG(seed, 36)))
		plan.drawClocks(rand.New(rand.NewPCG(seed, 37)))
		plan.drawSimpleServers(rand.New(rand.NewPCG(seed, 38)))
		plan.drawObservers(rand.New(rand.NewPCG(seed, 39)))
		plan.drawVirgins(rand.New(rand.NewPCG(seed, 40)))
		plan.drawLayouts(rand.New(rand.NewPCG(seed, 34)))
		plan.drawCluster(rand.New(rand.NewPCG(seed, 43)))
		simrand.SetStalls(plan.stalls)
		r := newRun(seed, plan)
		r.simulate(seed)
		r.drain()
		r.check()
		h := r.history
		report = Report{
			Seed: seed, Violations: h.violations, Hash: h.hash(), Holds: len(h.holds),
			Calls:   len(h.notes),
			Clients: time.Since(h.start) * time.Duration(len(r.processes)),
			Plan:    fmt.Sprintf("%+v", *r.plan),
		}
		for _, n := range h.sortedNotes() {
			report.Trace = append(report.Trace, fmt.Sprint(n.at, " ", n.who, " ", n.what))
		}
	})
	return report
}

func newRun(seed uint64, plan *Plan) *run {
	r := &run{seed: seed, plan: plan, end: time.Now().Add(plan.length), history: newHistory()}
	if plan.stalls > 0 {
		r.history.stall = simrand.MaxStall
	}
	for i := range nodes {
		// From 1 % slow to 1 % fast: as much as lockpipe's drift allows.
		rate := 1 + float64(int64(simrand.Hash(seed, 1, uint64(i))%5)-2)/200
		r.addresses = append(r.addresses, fmt.Sprintf("node-%d:6379", i))
		n := r.newNode(i, i, rate)
		r.nodes = append(r.nodes, n)
		if plan.turns {
			r.twins = append(r.twins, r.newNode(nodes+i, i, rate))
		}
		at := &atomic.Pointer[memorynode.Node]{}
		at.Store(n)
		r.serving = append(r.serving, at)
		r.frozenUntil = append(r.frozenUntil, &atomicTime{})
	}
	r.entries, r.names = r.addresses, r.addresses
	if plan.slots > 0 {
		r.cluster = newCluster(r)
		r.entries, r.names = []string{plan.clusterURL(r.addresses)}, r.cluster.names()
		r.history.place, r.history.voters = r.cluster.place, plan.slots
	}
	for i := range plan.clients {
		p := &process{
			run: r, number: i, rng: rand.New(rand.NewPCG(seed, uint64(100+i))),
			clockRng: rand.New(rand.NewPCG(seed, uint64(200+i))),
			aliasRng: rand.New(rand.NewPCG(seed, uint64(300+i))),
			ttlRng:   rand.New(rand.NewPCG(seed, uint64(400+i))),
			layout:   r.firstLayout(), restarting: make(chan struct{}, 1),
		}
		for j, n := range r.nodes {
			linkSeed := simrand.Hash(seed, 2, uint64(i), uint64(j))
			l := newLink(linkSeed, plan, n, &p.pausedUntil, r.frozenUntil[j])
			l.server = r.serving[j]
			l.onSend = func(data []byte) { r.history.checkSent(j, data) }
			l.onReply, l.onMeet = r.history.answer, p.meet
			p.links = append(p.links, l)
		}
		r.processes = append(r.processes, p)
	}
	return r
}

// newNode returns a server for the node with this index.
func (r *run) newNode(id, index int, rate float64) *memorynode.Node {
	plan, n := r.plan, memorynode.New(id, rate)
	n.Durable, n.HidesRunID = index < plan.durableNodes, index < plan.hiddenNodes
	n.Newer, n.NoTracking = index < plan.newerNodes, index >= nodes-plan.simpleNodes
	n.OnTake, n.OnRelease = r.history.take, r.history.release
	if plan.aliasEvery == 0 && !plan.turns && plan.slots == 0 {
		n.OnGuard = r.checkGuard(index)
	}
	return n
}

// server returns the server to which the name of a node leads.
func (r *run) server(node int) *memorynode.Node { return r.serving[node].Load() }

// checkGuard returns what looks at the guard's key of a node: while that is the name of the
// server's memory, nobody begins a wait of that memory. A record of another name is written by a
// client that saw the server before it forgot that it was a replica. This does not hold where a
// name leads to several servers.
func (r *run) checkGuard(node int) func(before, after, runID, replID string) {
	return func(before, after, runID, replID string) {
		memory, own := runID, before == runID || strings.HasPrefix(before, runID+".")
		if replID != "" {
			memory = runID + "." + replID
			own = before == memory
		}
		if own && strings.Contains(after, ":"+memory+":") {
			r.history.violation("node %d has lost nothing, and is to wait: %s, %s", node, before,
				after)
		}
	}
}

// sleep returns false if the run ends before d has passed.
func (r *run) sleep(d time.Duration) bool {
	left := time.Until(r.end)
	if d >= left {
		time.Sleep(left)
		return false
	}
	time.Sleep(d)
	return true
}

// simulate starts all actors of the run and returns when all of them have finished.
func (r *run) simulate(seed uint64) {
	var all sync.WaitGroup
	starts := rand.New(rand.NewPCG(seed, 8))
	for i, p := range r.processes {
		if r.plan.virgin && i > 0 {
			time.Sleep(r.plan.drawStart(starts))
		}
		p.startClient()
		all.Go(p.restartClients)
		for j := range r.plan.callers {
			number := uint64(1000 + 100*i + j)
			c := &caller{
				process: p, sim: r, name: fmt.Sprint(i, "/", j),
				rng:      rand.New(rand.NewPCG(seed, number)),
				fenceRng: rand.New(rand.NewPCG(seed, 10000+number)),
				resetRng: rand.New(rand.NewPCG(seed, 20000+number)),
				aliasRng: rand.New(rand.NewPCG(seed, 30000+number)),
				nestRng:  rand.New(rand.NewPCG(seed, 40000+number)),
				keepRng:  rand.New(rand.NewPCG(seed, 50000+number)),
				anyRng:   rand.New(rand.NewPCG(seed, 60000+number)),
				adoptRng: rand.New(rand.NewPCG(seed, 70000+number)),
			}
			all.Go(c.run)
		}
	}
	faults := &nemesis{run: r, rng: rand.New(rand.NewPCG(seed, 1))}
	all.Go(faults.injectFaults)
	losses := &nemesis{run: r, rng: rand.New(rand.NewPCG(seed, 2))}
	all.Go(losses.injectDataLosses)
	aliases := &nemesis{run: r, rng: rand.New(rand.NewPCG(seed, 4))}
	all.Go(aliases.injectAliases)
	suspensions := &nemesis{run: r, rng: rand.New(rand.NewPCG(seed, 5))}
	all.Go(suspensions.injectSuspensions)
	all.Go(func() { r.move(seed) })
	all.Go(r.copyDisks)
	turns := &nemesis{run: r, rng: rand.New(rand.NewPCG(seed, 7))}
	all.Go(turns.injectTurns)
	early := &nemesis{run: r, rng: rand.New(rand.NewPCG(seed, 9))}
	all.Go(early.injectEarlyLoss)
	clocks := &nemesis{run: r, rng: rand.New(rand.NewPCG(seed, 10))}
	all.Go(clocks.injectClocks)
	shards := &nemesis{run: r, rng: rand.New(rand.NewPCG(seed, 50))}
	all.Go(func() { shards.injectShardFaults(&all) })
	all.Go(func() { r.observe(seed) })
	all.Go(r.hangNode)
	all.Wait()
}

// hangNode lets node 0 read nothing from some time on, until drain heals the run.
func (r *run) hangNode() {
	if r.plan.hangAtEnd > 0 && r.sleep(r.plan.length-r.plan.hangAtEnd) {
		for _, p := range r.processes {
			p.links[0].up.heldUntil.set(r.end.Add(time.Hour))
		}
	}
}

// allConnected reports whether all clients are connected to a node under its own name.
func (r *run) allConnected(node int) bool {
	return !slices.ContainsFunc(r.processes, func(p *process) bool {
		return p.stateOf(node).State != lockpipe.NodeUp || !p.links[node].isDirect()
	})
}

// recoveryTime is how long a client may need to reach a healthy node again and to send it the
// pending releases.
const recoveryTime = 2500 * time.Millisecond

// dialTimeout is the default of lockpipe.Config: a dial that began during a partition ends no
// sooner, since this network does not send again what was lost.
const dialTimeout = 5 * time.Second

// guardLag is how much later than MaxTTL a node may vote again, when all answer: a second is taken
// off the age of its record, and a client may look seldom, and hear the others then.
const guardLag = 4 * time.Second

// driftMargin is by how much nodes may keep a key longer than its lease lasts.
func (p *Plan) driftMargin() time.Duration { return 2*p.clientMaxTTL/100 + 10*time.Millisecond }

// drain heals everything, closes the clients, and checks that no keys are left.
func (r *run) drain() {
	simrand.SetStalls(0)
	for i, n := range r.frozenUntil {
		if n.set(time.Now()); r.cluster == nil {
			r.nodes[i].Promote()
		}
		for _, p := range r.processes {
			p.pausedUntil.set(time.Now())
			p.links[i].heal()
		}
	}
	if r.cluster != nil {
		r.cluster.heal()
		time.Sleep(cluster.DeposedFor)
	}
	time.Sleep(recoveryTime + dialTimeout)
	if r.cluster != nil || r.plan.forgets() || r.plan.aliasEvery > 0 {
		// A client whose nodes are in quarantine can't confirm that it released everything.
		time.Sleep(r.plan.clientMaxTTL + guardLag)
	}
	r.expectNoQueues()
	r.expectNoChange("clients", func() { r.lookByClients(true) })
	for _, p := range r.processes {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if err := p.currentClient().Close(ctx); err != nil {
			r.history.violation("client %d is not closed: %v", p.number, err)
		}
		cancel()
	}
	time.Sleep(r.plan.driftMargin())
	if r.expectsClean() {
		r.expectNoKeys("soon after Close")
	}
	time.Sleep(r.plan.clientMaxTTL + r.plan.driftMargin())
	r.expectNoKeys("after the longest TTL")
	// Only now: servers may still execute what a client has sent before it was closed.
	r.expectNoChange("Inspect", func() { r.inspect(time.Second) })
}

// expectNoQueues wants no call to wait behind others in its client, since all have ended.
func (r *run) expectNoQueues() {
	var keys []string
	for i := range r.plan.keys {
		keys = append(keys, fmt.Sprint("k", i))
	}
	for _, p := range r.processes {
		ctx, cancel := context.WithTimeout(context.Background(), 10*r.plan.latency)
		l, err := p.currentClient().AcquireAll(ctx, keys)
		cancel()
		var held *lockpipe.HeldError
		if errors.As(err, &held) && len(held.Nodes) == 0 {
			r.history.violation("client %d: a call waits behind one that has ended: %v", p.number,
				err)
		}
		_ = l.Release(context.Background())
	}
}

// expectsClean reports whether no key may be left soon after Close. Keys may stay for their TTL:
// after a client that was closed while it could not reach every node, or whose Close was not waited
// for; if a release overtook the command that it cleans up after; or if the name under which a
// server was asked leads to another server now; and if holders keep keys.
func (r *run) expectsClean() bool {
	if r.plan.reorderAcrossConns || r.plan.aliasEvery > 0 || r.plan.keptPercent > 0 ||
		r.cluster != nil && r.plan.forgets() {
		return false
	}
	restarts := r.plan.restartEvery > 0 || len(r.plan.layouts) > 1
	return !restarts || r.plan.faultEvery == 0 && !r.closedEarly.Load()
}

// expectNoKeys wants no keys on any node, except those that lockpipe keeps for longer.
func (r *run) expectNoKeys(when string) {
	for _, n := range slices.Concat(r.nodes, r.twins) {
		for _, key := range n.LiveKeys() {
			if _, name := r.history.place(key); !strings.HasPrefix(name, prefix+ids.Reserved) {
				r.history.violation("node %d has %s %s", n.ID(), key, when)
			}
		}
	}
}

// check looks for violations in the history.
func (r *run) check() {
	for _, b := range r.history.holds {
		if b.end.IsZero() {
			r.history.violation("the lease of %s on %v has no end", b.who, b.keys)
		}
	}
	if !r.plan.mix.Admitting {
		r.history.checkExclusion()
		r.history.checkKept()
		r.history.checkLinearizable()
		r.history.checkFences()
	}
	r.history.checkExtensions()
}

// checkQuorumBacks wants a quorum of nodes to keep the keys of a lease for longer than it lasts.
func (r *run) checkQuorumBacks(h *hold) {
	until := h.lease.Until()
	if until.IsZero() || r.plan.forgets() || r.plan.mix.Blind {
		return
	}
	for _, key := range h.keys {
		count := 0
		if !h.layout.quorumBacks(key, r.names, func(node int) bool {
			value, kept := r.keyUntil(node, prefix+key)
			of, _ := ids.SplitValue(value)
			keeps := of == h.lease.Token() && kept.After(until)
			if keeps {
				count++
			}
			return keeps
		}) {
			r.history.violation("%s holds %s for another %v, and %d nodes keep it as long", h.who,
				key, time.Until(until), count)
		}
	}
}

// keyUntil returns the value of a key of a node, and until when it lasts.
func (r *run) keyUntil(node int, key string) (value string, until time.Time) {
	if r.cluster != nil {
		return r.cluster.keyUntil(node, key)
	}
	return r.nodes[node].KeyUntil(key)
}

// afterRelease wants a release not to say that the lease was lost, if no node forgets anything and
// no name leads to another server.
func (r *run) afterRelease(h *hold, err error) {
	if errors.Is(err, lockpipe.ErrLost) && errors.Is(h.lease.Err(), lockpipe.ErrReleased) &&
		!r.plan.forgets() && !r.plan.mix.Blind && r.plan.aliasEvery == 0 {
		r.history.violation("%s releases %v, and is told: %v", h.who, h.keys, err)
	}
}

// beforeRelease is called before Release.
func (r *run) beforeRelease(h *hold) {
	r.checkQuorumBacks(h)
	h.endBeforeRelease()
}
