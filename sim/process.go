package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/sim/dice"
)

// process is what uses one client at a time. When that was closed there is a new one.
type process struct {
	run    *run
	number int
	rng    *rand.Rand // of its ends
	clocks *rand.Rand // of its clients' wall clocks
	names  *rand.Rand // of where names lead when a client begins
	links  []*link    // to each node
	paused moment     // until when it is stopped

	mu     sync.Mutex // guards all below
	client *lockpipe.Client
	known  bool // the client has had a node that was up
	absent bool // the client was closed, or is being closed, and there is no new one yet
}

// begin makes a client, with a wall clock of its own.
func (p *process) begin() {
	if p.run.plan.aliases > 0 && p.names.IntN(4) == 0 {
		p.mislead(p.names, around(p.names, time.Second))
	}
	var c *lockpipe.Client
	dice.Shifted(below(p.clocks, p.run.plan.skew+1), func() {
		var err error
		c, err = lockpipe.New(lockpipe.Config{
			Nodes: p.run.addresses, Prefix: prefix, NodeTimeout: p.run.plan.timeout,
			TTL: p.run.plan.longest, MaxTTL: p.run.plan.longest,
			RestartGuard: p.run.plan.guard,
			Dial:         p.dial, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			panic(err)
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.client, p.known, p.absent = c, false, false
}

// knows reports whether the client has had a node that was up.
func (p *process) knows() bool {
	up := func(n lockpipe.NodeStatus) bool { return n.State == lockpipe.NodeUp }
	c := p.current()
	now := slices.ContainsFunc(c.Nodes(), up)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = p.known || now && p.client == c
	return p.known
}

func (p *process) dial(ctx context.Context, _, address string) (net.Conn, error) {
	return p.links[slices.Index(p.run.addresses, address)].dial(ctx)
}

// current is the client of the moment.
func (p *process) current() *lockpipe.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client
}

// restarts closes the client now and then, with little patience, and makes a new one.
func (p *process) restarts() {
	mean := p.run.plan.restart
	if mean == 0 {
		return
	}
	for p.run.pause(around(p.rng, mean)) {
		ctx, cancel := context.WithTimeout(context.Background(),
			around(p.rng, 200*time.Millisecond))
		p.leave()
		err := p.current().Close(ctx)
		cancel()
		if err != nil {
			p.run.hasty.Store(true)
		}
		p.run.history.note(fmt.Sprint("client ", p.number), "closed: "+p.run.name(err, closing))
		if !p.run.open() {
			return
		}
		p.begin()
	}
}

// leave notes that the client is about to be closed.
func (p *process) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.absent = true
}

// sees reports whether the client has found that a node is a replica. One that is closed needs not.
func (p *process) sees(node int) bool {
	p.mu.Lock()
	c, absent := p.client, p.absent
	p.mu.Unlock()
	err := c.Nodes()[node].Err
	return absent || err != nil && strings.Contains(err.Error(), "it is a replica")
}

// mislead lets the name of a node lead to the server of another one for a while; or the names of
// two nodes change places. It returns which.
func (p *process) mislead(rng *rand.Rand, d time.Duration) string {
	node := rng.IntN(nodes)
	other := (node + 1 + rng.IntN(nodes-1)) % nodes
	swap, broken, after := rng.IntN(2) == 0, rng.IntN(4) > 0, rng.IntN(4) > 0
	l, o := p.links[node], p.links[other]
	l.lead(o, broken)
	if swap {
		o.lead(l, broken)
	}
	time.AfterFunc(d, func() {
		l.lead(nil, after)
		if swap {
			o.lead(nil, after)
		}
	})
	return fmt.Sprint("client ", p.number, " node ", node, " is ", other, " swap ", swap, " ", d)
}

// move lets the name of a node that has just lost its connection lead to the server of another one,
// which answers and then loses its own. Often two others answer late, so that each vote is needed.
func (p *process) move(rng *rand.Rand) {
	order, plan := rng.Perm(nodes), p.run.plan
	if rng.IntN(2) == 0 {
		for _, node := range order[2:4] {
			p.run.frozen[node].set(time.Now().Add(2 * plan.timeout))
		}
	}
	l, o := p.links[order[0]], p.links[order[1]]
	l.lead(o, true)
	time.AfterFunc(plan.latency+below(rng, 6*plan.latency), func() { o.lead(l, true) })
	time.AfterFunc(7*plan.latency+around(rng, 100*time.Millisecond), func() {
		l.lead(nil, true)
		o.lead(nil, true)
	})
}

// snap breaks all connections of the process. What was sent is not lost.
func (p *process) snap() {
	for _, l := range p.links {
		if c := l.current(); c != nil {
			c.snap(false)
		}
	}
}

// react is the time that a caller takes between two calls: some hundred nanoseconds, so that what
// one event caused does not happen at one instant, and in a process that is stopped, until it goes
// on.
func (p *process) react(rng *rand.Rand) {
	if p.paused.ahead() {
		time.Sleep(time.Until(p.paused.get()))
	}
	time.Sleep(1 + below(rng, time.Microsecond))
}
