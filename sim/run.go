// Package sim runs whole lockpipe clients against masters in memory, in virtual time, and looks
// whether leases exclude each other while all that can go wrong with networks, masters, clocks and
// processes does.
//
// Everything follows from a seed: each caller and each client has random numbers of its own, and
// what happens to a message depends on the seed, the place and the virtual time alone. A run
// repeats exactly, as far as Go allows it: when two things happen at the same nanosecond, their
// order is the scheduler's, and a select or a map in the code under test has random numbers of its
// own. With GOMAXPROCS=1, without the race detector and with the pauses of lockpipe drawn from
// package dice, which the tests arrange, that is rare enough that the tests demand it.
package sim

import (
	"context"
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
	"github.com/lockpipe/lockpipe/sim/dice"
)

// Report is what became of a run.
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

// run is one simulation under way.
type run struct {
	plan      *Plan
	end       time.Time
	addresses []string
	nodes     []*node
	frozen    []*moment // until when each node is
	processes []*process
	barred    moment           // until when no client begins
	connected [nodes]moment    // when a client was connected to each node, where that matters
	restored  [nodes]time.Time // when each node was restored; of the weather that does it
	history   *history
	hasty     atomic.Bool // a client was closed without enough patience
}

// Run simulates what the seed says.
func Run(t *testing.T, seed uint64, mix Mix) (report Report) {
	dice.Seed(seed)
	defer func() {
		if p := recover(); p != nil {
			panic(fmt.Sprintf("seed %d: %v", seed, p)) // of goroutines that are left
		}
	}()
	synctest.Test(t, func(*testing.T) {
		rng := rand.New(rand.NewPCG(seed, 0))
		plan := newPlan(rng, mix)
		plan.fencing(rand.New(rand.NewPCG(seed, 3)))
		// None of these is drawn for testdata/seeds, which stay as they are by that.
		plan.returning(rand.New(rand.NewPCG(seed, 12)))
		plan.aliasing(rand.New(rand.NewPCG(seed, 17)))
		plan.restoring(rand.New(rand.NewPCG(seed, 18)))
		plan.demoting(rand.New(rand.NewPCG(seed, 19)))
		plan.stopping(rand.New(rand.NewPCG(seed, 20)))
		plan.briefly(rand.New(rand.NewPCG(seed, 21)))
		r := newRun(seed, plan)
		r.live(seed)
		r.finish()
		r.judge()
		h := r.history
		report = Report{
			Seed: seed, Violations: h.violations, Hash: h.hash(), Holds: len(h.holds),
			Calls:   len(h.notes),
			Clients: time.Since(h.start) * time.Duration(len(r.processes)), Plan: fmt.Sprintf("%+v",
				*r.plan),
		}
		for _, n := range h.sorted() {
			report.Trace = append(report.Trace, fmt.Sprint(n.at, " ", n.who, " ", n.what))
		}
	})
	return report
}

func newRun(seed uint64, plan *Plan) *run {
	r := &run{plan: plan, end: time.Now().Add(plan.length), history: newHistory()}
	for i := range nodes {
		// 1 % slow to 1 % fast: all that the drift allows for.
		rate := 1 + float64(int64(dice.Mix(seed, 1, uint64(i))%5)-2)/200
		r.addresses = append(r.addresses, fmt.Sprintf("node-%d:6379", i))
		n := newNode(i, rate)
		n.durable, n.hidden = i < plan.durable, i < plan.hidden
		r.nodes = append(r.nodes, n)
		r.frozen = append(r.frozen, &moment{})
	}
	for i := range plan.clients {
		p := &process{
			run: r, number: i, rng: rand.New(rand.NewPCG(seed, uint64(100+i))),
			clocks: rand.New(rand.NewPCG(seed, uint64(200+i))),
			names:  rand.New(rand.NewPCG(seed, uint64(300+i))),
		}
		for j, n := range r.nodes {
			l := newLink(dice.Mix(seed, 2, uint64(i), uint64(j)), plan, n, &p.paused, r.frozen[j])
			l.sends = r.history.leaving
			p.links = append(p.links, l)
		}
		r.processes = append(r.processes, p)
	}
	return r
}

// pause returns false when the run is over before d has passed.
func (r *run) pause(d time.Duration) bool {
	left := time.Until(r.end)
	if d >= left {
		time.Sleep(left)
		return false
	}
	time.Sleep(d)
	return true
}

// What GuardAuto can't notice is that all nodes have forgotten, for a client that has never met one
// before: it takes them for new ones. So no client begins when there is no marker, and no memory is
// lost while there is such a client. Both return false when the run is over before.

// known waits until every client has met a node.
func (r *run) known() bool {
	return r.when(func() bool {
		return !slices.ContainsFunc(r.processes,
			func(p *process) bool { return !p.knows() })
	})
}

// open waits until a client may begin: a node has its marker, and no node can be a replica that the
// client would not see.
func (r *run) open() bool {
	if !r.marked() {
		return false
	}
	for r.barred.ahead() {
		if !r.pause(10 * time.Millisecond) {
			return false
		}
	}
	return true
}

// marked waits until a node has its marker.
func (r *run) marked() bool {
	return r.when(func() bool { return slices.ContainsFunc(r.nodes, (*node).marked) })
}

func (r *run) when(met func() bool) bool {
	for r.plan.forget > 0 && r.plan.guard == lockpipe.GuardAuto && !met() {
		if !r.pause(10 * time.Millisecond) {
			return false
		}
	}
	return true
}

// live returns when everybody has done what there is to do.
func (r *run) live(seed uint64) {
	var all sync.WaitGroup
	for i, p := range r.processes {
		p.begin()
		all.Go(p.restarts)
		for j := range r.plan.callers {
			number := uint64(1000 + 100*i + j)
			c := &caller{
				process: p, run: r, name: fmt.Sprint(i, "/", j),
				rng: rand.New(rand.NewPCG(seed, number)), fences: rand.New(rand.NewPCG(seed, 10000+
					number)),
				breaks: rand.New(rand.NewPCG(seed, 20000+number)),
				names:  rand.New(rand.NewPCG(seed, 30000+number)),
			}
			all.Go(c.live)
		}
	}
	w := &weather{run: r, rng: rand.New(rand.NewPCG(seed, 1))}
	all.Go(w.blow)
	forgetting := &weather{run: r, rng: rand.New(rand.NewPCG(seed, 2))}
	all.Go(forgetting.forget)
	misleading := &weather{run: r, rng: rand.New(rand.NewPCG(seed, 4))}
	all.Go(misleading.mislead)
	stopping := &weather{run: r, rng: rand.New(rand.NewPCG(seed, 5))}
	all.Go(stopping.stop)
	all.Go(r.copies)
	all.Go(r.flap)
	all.Go(r.hang)
	all.Wait()
}

// hang lets a node read nothing until the run is healed.
func (r *run) hang() {
	if r.plan.hang > 0 && r.pause(r.plan.length-r.plan.hang) {
		for _, p := range r.processes {
			p.links[0].up.held.set(r.end.Add(time.Hour))
		}
	}
}

// up reports whether all clients are connected to a node, by its own name.
func (r *run) up(node int) bool {
	return !slices.ContainsFunc(r.processes, func(p *process) bool {
		return p.current().Nodes()[node].State != lockpipe.NodeUp || !p.links[node].direct()
	})
}

// recovering is how long a client may need to reach a node again that is well, and to send it what
// was kept for it.
const recovering = 2500 * time.Millisecond

// drifting is by how much nodes may keep a key longer than its lease lasts.
func (p *Plan) drifting() time.Duration { return 2*p.longest/100 + 10*time.Millisecond }

// finish heals everything, closes the clients, and looks whether keys are left.
func (r *run) finish() {
	for i, n := range r.frozen {
		n.set(time.Now())
		r.nodes[i].promote()
		for _, p := range r.processes {
			p.paused.set(time.Now())
			p.links[i].heal()
		}
	}
	time.Sleep(recovering)
	if r.plan.forget > 0 || r.plan.aliases > 0 {
		// A client whose nodes are in quarantine can't confirm that it released everything.
		time.Sleep(r.plan.longest)
	}
	for _, p := range r.processes {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if err := p.current().Close(ctx); err != nil {
			r.history.violation("client %d is not closed: %v", p.number, err)
		}
		cancel()
	}
	time.Sleep(r.plan.drifting())
	if r.tidy() {
		r.free("soon after Close")
	}
	time.Sleep(r.plan.longest + r.plan.drifting())
	r.free("after the longest TTL")
}

// tidy reports whether nothing may be left for its TTL: by a client that was closed when it could
// not reach every node, or whose Close was not waited for; or because something was overtaken by
// the release that takes it back; or because the name under which a server was asked leads to
// another one now.
func (r *run) tidy() bool {
	return !r.plan.crossed && r.plan.aliases == 0 && (r.plan.restart == 0 || r.plan.faults == 0 &&
		!r.hasty.Load())
}

// free wants no keys on any node, but what stands beside them for longer.
func (r *run) free(when string) {
	for i, n := range r.nodes {
		for _, key := range n.left() {
			if !strings.HasPrefix(key, prefix+"lockpipe:") {
				r.history.violation("node %d has %s %s", i, key, when)
			}
		}
	}
}

// judge looks at the history.
func (r *run) judge() {
	for _, b := range r.history.holds {
		if b.end.IsZero() {
			r.history.violation("the lease of %s on %v has no end", b.who, b.keys)
		}
	}
	if !r.plan.mix.Admitting {
		r.history.disjoint()
		r.history.linearizable()
		r.history.rising()
	}
	r.history.unconfirmable()
}

// backed wants a quorum of nodes to keep the keys of a lease for longer than it lasts.
func (r *run) backed(h *hold) {
	until, token := h.lease.Until(), h.lease.Token()
	if until.IsZero() || r.plan.forget > 0 || r.plan.mix.Blind {
		return
	}
	for _, key := range h.keys {
		count := 0
		for _, n := range r.nodes {
			if n.until(prefix+key, token).After(until) {
				count++
			}
		}
		if count <= nodes/2 {
			r.history.violation("%s holds %s for another %v, and %d nodes keep it as long", h.who,
				key, time.Until(until), count)
		}
	}
}

// before is called before Release.
func (r *run) before(h *hold) {
	r.backed(h)
	h.ending()
}
