// Package cluster knows which server of a Redis Cluster has a slot, by what the cluster's servers
// say.
//
// # Why no two holders come of a failover, a takeover or a move
//
// A node of a client is a slot, and all of its keys are in that slot. On one server a key has one
// holder. So the danger is two servers that both act as the owner of the slot: an old owner that
// does not know that it is deposed, and a new one. Write M for a majority of all servers that the
// cluster knows, replicas too. Three rules keep the two apart:
//
//  1. A client connects to a server only after M named it as the owner. So the first wait record
//     on the new owner (package guard) was written at a moment t, after M named the new owner.
//  2. A client asks a server for votes only if M, asked within the last ConfirmedFor, named it as
//     the owner. What is sent later than that is not sent.
//  3. The new owner votes W after t, which is MaxTTL and DeposedFor at least.
//
// The two majorities have a server in common. A server changes its mind for a higher configuration
// epoch only, so it named the old owner before t, and was asked then. So what the old owner was
// last asked was sent before t + ConfirmedFor. A lease is valid for less than MaxTTL from when it
// was sent, whenever the server executes it. It ends before t + ConfirmedFor + MaxTTL, and the new
// owner votes later.
//
// A server that was the owner earlier does not vote sooner. Its record or name went away with the
// slot's keys when the slot moved. As a replica it copied the key of its master, and its memory
// gets another name when it is a master again.
//
// Replicas count because of CLUSTER FAILOVER TAKEOVER. It asks nobody: each side of a partition
// may have a majority of what it takes for the masters. But replicas of one side are masters of
// the other, so only one side has a majority of all servers. If neither has one, the node does not
// vote. A server that the cluster has forgotten does not count, and a new one does: while one
// comes or goes at a time, any two majorities still have a server in common.
//
// A slot that moves takes its keys along, and with them the guard's key. That names the memory of
// the old owner, so the new one waits too. While the slot moves, the servers answer ASK or
// TRYAGAIN about keys that are elsewhere, which is no vote.
//
// If two slots are on one server, its loss costs both votes at once. So of what both nodes grant
// one attempt, one grant counts (quorum.System.CountOnce): a quorum is on so many servers. The
// proof above is for each slot alone and does not need it. Both nodes are connected and asked at
// any time. So no vote is handed over when a slot comes or goes, and none is missed. What was asked
// before and is answered late belongs to the slot that it was sent for, and counts in the same way.
// With a guard, a node that gets another server waits for longer than any attempt lasts. So within
// one attempt the servers are those that have granted it.
//
// The proof does not cover an administrator who gives a slot to a server by hand that is neither
// its owner nor got its keys (CLUSTER SETSLOT, BUMPEPOCH in a partition), makes a cluster forget
// servers that still run and that clients reach, starts a server with an older copy of its
// nodes.conf, or gives up a move of a slot after the new server has lost the keys that it got.
package cluster

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/suspension"
	"github.com/lockpipe/lockpipe/lease"
)

const (
	// ConfirmedFor is how long a server is the owner for a client, from when the client asked.
	ConfirmedFor = 3 * time.Second
	// DeposedFor is how much longer than MaxTTL a new owner waits: see the package comment. The
	// second is for clocks that differ.
	DeposedFor = ConfirmedFor + time.Second
	// maxServers is the most servers that are asked. A larger cluster gets no majority.
	maxServers = 256
)

// Clusters are the clusters of one client. The zero value is ready. It has one user at a time.
type Clusters struct{ all map[string]*Cluster }

// Slot returns who finds the owner of the slot of a node. Nodes of one cluster share what they
// ask. dial and logger are those of endpoint.NewDialer. All is called before one of them runs.
func (all *Clusters) Slot(
	l *endpoint.Logins, dial endpoint.DialFunc, logger *slog.Logger,
) *Slot {
	e := l.Endpoint()
	var seeds []string
	for _, s := range e.Sentinels {
		seeds = append(seeds, s.Address)
	}
	key := strings.Join(seeds, " ")
	c := all.all[key]
	if c == nil {
		c = &Cluster{
			logins: l, dial: dial, logger: logger, seeds: seeds,
			clock:   lease.NewClock(suspension.Counter()),
			timeout: e.DialTimeout + 2*endpoint.AnswerTimeout + endpoint.DialGrace,
			servers: map[string]*server{}, reports: map[string]report{},
			changed: make(chan struct{}),
		}
		if all.all == nil {
			all.all = map[string]*Cluster{}
		}
		all.all[key] = c
	}
	s := &Slot{cluster: c, index: len(c.slots), number: e.Slot}
	c.slots = append(c.slots, s)
	return s
}

// Cluster asks the servers of one cluster. Each has a goroutine with a connection of its own. The
// servers that the URL names are asked while too few others are known.
type Cluster struct {
	logins  *endpoint.Logins
	dial    endpoint.DialFunc
	logger  *slog.Logger
	seeds   []string
	slots   []*Slot       // set before it runs
	timeout time.Duration // how long FindMaster waits
	clock   *lease.Clock
	running sync.WaitGroup

	mu      sync.Mutex // guards all below; a leaf
	ctx     context.Context
	servers map[string]*server // that are asked, by their addresses
	reports map[string]report  // the last one of each server, by its ID
	changed chan struct{}      // closed when the next server answers or fails
}

// now is the time by the clock.
func (c *Cluster) now() time.Duration { return time.Duration(c.clock.Now()) }

// Run starts the goroutines, if they are not running. They end with ctx, and wait returns when they
// have ended. Then it may be called again.
func (s *Slot) Run(ctx context.Context) (wait func()) {
	c := s.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil || c.ctx.Err() != nil {
		c.ctx = ctx
		for _, known := range c.servers {
			c.launch(known)
		}
		for _, address := range c.seeds {
			c.start(address, true)
		}
	}
	return c.running.Wait
}

// start begins to ask a server. mu is held.
func (c *Cluster) start(address string, seed bool) {
	if known := c.servers[address]; known != nil {
		known.seed = known.seed && seed
		return
	}
	if len(c.servers) >= maxServers {
		return
	}
	e := c.logins.Endpoint().WithAddress(address)
	e.Cluster, e.MasterSet = 0, "" // it is asked who has a slot, and was not named for one
	s := &server{
		Asker: endpoint.NewAsker(e, c.logins, c.dial, c.logger), cluster: c, seed: seed,
	}
	c.servers[address] = s
	c.launch(s)
}

// launch starts the goroutine of a server. mu is held.
func (c *Cluster) launch(s *server) {
	ctx, stop := context.WithCancel(c.ctx)
	s.stop = stop
	c.running.Go(func() {
		defer stop()
		s.run(ctx)
	})
}

// takeReport takes the answer of a server that was asked then, or why it has none.
func (c *Cluster) takeReport(s *server, asked time.Duration, r report, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.asked, s.err = asked, err
	if err == nil {
		c.reports[r.id] = r
		for _, address := range r.addresses {
			c.start(address, false)
		}
	}
	c.forget()
	for _, slot := range c.slots {
		slot.update()
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// forget drops the reports that are too old, and stops to ask servers that no report names, if
// there is one. mu is held.
func (c *Cluster) forget() {
	now, named := c.now(), map[string]bool{}
	for id, r := range c.reports {
		if now-r.at >= ConfirmedFor {
			delete(c.reports, id)
		}
		for _, address := range r.addresses {
			named[address] = true
		}
	}
	for address, s := range c.servers {
		if len(c.reports) > 0 && !named[address] && !s.seed {
			s.stop()
			delete(c.servers, address)
		}
	}
}

// size returns how many servers the cluster has, by all reports together. mu is held.
func (c *Cluster) size() int {
	all := map[string]bool{}
	for _, r := range c.reports {
		for _, id := range r.ids {
			all[id] = true
		}
	}
	return len(all)
}

// majority returns how many of these servers are one.
func majority(size int) int { return size/2 + 1 }

// knowsMany reports whether a majority has answered lately. Then the servers that only the URL
// names are not asked. mu is held.
func (c *Cluster) knowsMany() bool {
	return len(c.reports) > 0 && len(c.reports) >= majority(c.size())
}
