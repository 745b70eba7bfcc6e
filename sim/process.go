package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/lockpipe/lockpipe/sim/simrand"
)

// process is a process that uses one client at a time. After it has closed the client it makes a
// new one.
type process struct {
	run         *run
	number      int
	rng         *rand.Rand    // for when its clients are closed
	clockRng    *rand.Rand    // for its clients' wall clocks
	ttlRng      *rand.Rand    // for its clients' MaxTTL and NodeTimeout
	aliasRng    *rand.Rand    // for where names lead when a client is started
	links       []*link       // to each node
	pausedUntil atomicTime    // until when it does nothing
	restarting  chan struct{} // of capacity 1; filled while a client is closed and another made

	mu     sync.Mutex   // guards all below
	layout clientLayout // of clients that it will make
	client *lockpipe.Client
	used   clientLayout // by the client
	// The groups of which the client has had a node that was up.
	metGroups map[string]bool
	closing   bool // the client is closed or about to be, and there is no new one yet
	clients   int  // how many it has made
	// The servers that the client has met: it knows what they are.
	met map[*memorynode.Node]bool
}

// startClient makes a client, with a wall clock of its own.
func (p *process) startClient() {
	if plan := p.run.plan; plan.aliasEvery > 0 && p.aliasRng.IntN(4) == 0 {
		p.aliasNode(p.aliasRng, around(p.aliasRng, time.Second))
	}
	p.mu.Lock()
	used := p.layout
	p.clients++
	number := p.clients
	p.met = map[*memorynode.Node]bool{}
	p.mu.Unlock()
	var c *lockpipe.Client
	plan := p.run.plan
	used.maxTTL = plan.drawMaxTTL(p.ttlRng)
	simrand.WithClockSkew(below(p.clockRng, plan.clockSkew+1), func() {
		cfg := lockpipe.Config{
			Prefix: prefix, NodeTimeout: plan.drawTimeout(p.ttlRng),
			TTL: used.maxTTL, MaxTTL: used.maxTTL, RestartGuard: plan.guard,
			Dial: p.dialer(number), Logger: slog.New(slog.DiscardHandler),
		}
		used.configure(&cfg, p.run.entries)
		var err error
		if c, err = lockpipe.New(cfg); err != nil {
			panic(err)
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.client, p.used, p.closing = c, used, false
	p.metGroups = map[string]bool{}
}

// hasMetNodes reports whether the client has had a node of each group that was up.
func (p *process) hasMetNodes() bool {
	c := p.currentClient()
	nodes := c.Nodes()
	p.mu.Lock()
	defer p.mu.Unlock()
	all := true
	for _, n := range nodes {
		if n.State == lockpipe.NodeUp && p.client == c {
			p.metGroups[n.Group] = true
		}
	}
	for _, n := range nodes {
		all = all && p.metGroups[n.Group]
	}
	return all
}

// stateOf returns what the client knows of a node. It is down if the client does not use the
// node.
func (p *process) stateOf(node int) lockpipe.NodeStatus {
	return stateIn(p.currentClient(), p.run.addresses[node])
}

func stateIn(c *lockpipe.Client, address string) lockpipe.NodeStatus {
	for _, n := range c.Nodes() {
		if n.Addr == address {
			return n
		}
	}
	return lockpipe.NodeStatus{State: lockpipe.NodeDown}
}

// reachesAll reports whether the client has made a handshake with each node, and is not about to be
// replaced.
func (p *process) reachesAll() bool {
	p.mu.Lock()
	c, absent := p.client, p.closing
	p.mu.Unlock()
	return !absent && !slices.ContainsFunc(c.Nodes(), func(n lockpipe.NodeStatus) bool {
		return n.State != lockpipe.NodeUp && n.State != lockpipe.NodeQuarantined
	})
}

// setLayout sets the layout of the clients that the process will make.
func (p *process) setLayout(l clientLayout) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.layout = l
}

// clientAndLayout returns the newest client, and which nodes it uses.
func (p *process) clientAndLayout() (*lockpipe.Client, clientLayout) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client, p.used
}

// dialer returns what the client with this number dials with.
func (p *process) dialer(number int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		return p.links[slices.Index(p.run.addresses, address)].dial(ctx, number)
	}
}

// meet records that a client has met the server at the other end of a connection.
func (p *process) meet(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.client == p.clients {
		p.met[c.session.Node()] = true
	}
}

// forget records that the client has not met a server.
func (p *process) forget(server *memorynode.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.met, server)
}

// hasMet reports whether the client has met a server. For a closed client it is true.
func (p *process) hasMet(server *memorynode.Node) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closing || p.met[server]
}

// currentClient returns the newest client.
func (p *process) currentClient() *lockpipe.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client
}

// restartClients closes the client now and then, with a short timeout, and makes a new one.
func (p *process) restartClients() {
	mean := p.run.plan.restartEvery
	if mean == 0 {
		return
	}
	for p.run.sleep(around(p.rng, mean)) {
		if !p.restartClient(around(p.rng, 200*time.Millisecond)) {
			return
		}
	}
}

// restartClient closes the client with a timeout, and makes a new one. It returns false if the run
// ends first.
func (p *process) restartClient(timeout time.Duration) bool {
	p.restarting <- struct{}{}
	defer func() { <-p.restarting }()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	p.markClosing()
	err := p.currentClient().Close(ctx)
	cancel()
	if err != nil {
		p.run.closedEarly.Store(true)
	}
	p.run.history.note(fmt.Sprint("client ", p.number), "closed: "+p.run.outcome(err, closing))
	if !p.run.awaitMayStart() {
		return false
	}
	p.startClient()
	return true
}

// markClosing records that the client is about to be closed.
func (p *process) markClosing() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing = true
}

// aliasNode lets the name of a node lead to the server of another node for d, or swaps the names of
// two nodes. It returns a description.
func (p *process) aliasNode(rng *rand.Rand, d time.Duration) string {
	node := rng.IntN(nodes)
	other := (node + 1 + rng.IntN(nodes-1)) % nodes
	swap, resetNow, resetAfter := rng.IntN(2) == 0, rng.IntN(4) > 0, rng.IntN(4) > 0
	l, o := p.links[node], p.links[other]
	l.setAlias(o, resetNow)
	if swap {
		o.setAlias(l, resetNow)
	}
	time.AfterFunc(d, func() {
		l.setAlias(nil, resetAfter)
		if swap {
			o.setAlias(nil, resetAfter)
		}
	})
	return fmt.Sprint("client ", p.number, " node ", node, " is ", other, " swap ", swap, " ", d)
}

// moveNode breaks a node's connection and lets its name lead to the server of another node. That
// server answers, and then its own connection breaks. Often two further nodes answer late, so that
// each vote is needed.
func (p *process) moveNode(rng *rand.Rand) {
	order, plan := rng.Perm(nodes), p.run.plan
	if rng.IntN(2) == 0 {
		for _, node := range order[2:4] {
			p.run.frozenUntil[node].set(time.Now().Add(2 * plan.timeout))
		}
	}
	l, o := p.links[order[0]], p.links[order[1]]
	l.setAlias(o, true)
	time.AfterFunc(plan.latency+below(rng, 6*plan.latency), func() { o.setAlias(l, true) })
	time.AfterFunc(7*plan.latency+around(rng, 100*time.Millisecond), func() {
		l.setAlias(nil, true)
		o.setAlias(nil, true)
	})
}

// resetConns breaks all connections of the process. What was sent is not lost.
func (p *process) resetConns() {
	for node := range p.links {
		p.resetConn(node)
	}
}

// resetConn breaks the connection to a node. What was sent is not lost.
func (p *process) resetConn(node int) {
	for _, c := range p.links[node].all() {
		c.reset(false)
	}
}

// jitter sleeps as long as a caller takes between two calls: some hundred nanoseconds, so that the
// effects of one event do not happen at one instant. In a paused process it first waits until that
// continues.
func (p *process) jitter(rng *rand.Rand) {
	if p.pausedUntil.inFuture() {
		time.Sleep(time.Until(p.pausedUntil.get()))
	}
	time.Sleep(1 + below(rng, time.Microsecond))
}
