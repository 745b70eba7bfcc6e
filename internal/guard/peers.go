package guard

import (
	"fmt"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/quorum"
)

// hearTimeout is for how long a node that is up may stay silent before a wait ends without it.
const hearTimeout = 500 * time.Millisecond

// Peers is what the guards of nodes share whose claims may share a quorum. All methods are safe for
// concurrent use.
type Peers struct {
	names  []string       // of the nodes
	sets   []quorum.Nodes // in each of which claims need a quorum
	guards []*Guard       // set before one of them is used

	mu    sync.Mutex   // guards all below; what nodes have heard is asked under it
	up    quorum.Nodes // those that vote, or were not tried yet
	first firstUse
	// knows is since when the client has seen a name, or a record that is no new one; zero: never.
	knows time.Time
}

// NewPeers returns the Peers of nodes with these names, 64 at most. Claims need a quorum in each of
// some of the sets.
func NewPeers(names []string, sets []quorum.Nodes) *Peers {
	all := quorum.First(len(names))
	return &Peers{
		names: names, sets: sets, guards: make([]*Guard, len(names)), up: all,
		first: firstUse{nodes: all, texts: make([]string, len(names))},
	}
}

// MayBeFirstUse reports whether the nodes may still turn out to be used for the first time.
func (p *Peers) MayBeFirstUse() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first.stage < over
}

// setUp records whether a node votes.
func (p *Peers) setUp(node int, up bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.up &^= quorum.Node(node); up {
		p.up |= quorum.Node(node)
	}
}

// heard returns what was heard last on a node.
func (p *Peers) heard(node int) fleet.Heard { return p.guards[node].config.Layouts.Heard() }

// SharedServerError is why a node in a Redis Cluster has no vote.
type SharedServerError struct{ Node, With string }

// Error names both nodes, and says what to do.
func (e *SharedServerError) Error() string {
	return fmt.Sprintf("%s is on the server of %s, and one server has one vote: move one of the "+
		"slots to another master (redis-cli --cluster reshard), or add a master", e.Node, e.With)
}

// TakeSeat records that the node votes, on the server that was admitted last. Config.Yield of other
// nodes may be called from then on, and that of the node too: so the caller can find the connection
// already. In a Redis Cluster only the node of the lowest number votes of those that lead to one
// server. The error is why it is not this one. If it is, the others yield.
func (g *Guard) TakeSeat() error {
	p, node, runID := g.peers, g.config.Node, g.server.RunID
	if err := p.Shared(node, runID); err != nil {
		return err
	}
	p.setUp(node, true)
	for i := node + 1; g.config.Yield != nil && i < len(p.guards); i++ {
		if err := p.Shared(i, runID); err != nil && p.heard(i).RunID == runID {
			p.guards[i].config.Yield(err)
		}
	}
	return nil
}

// Shared returns why a node in a Redis Cluster has no vote on a server: a node of lower number has
// it. It returns nil if none has.
func (p *Peers) Shared(node int, runID string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range node {
		if runID != "" && p.up.Has(i) && p.heard(i).RunID == runID &&
			p.guards[i].config.Yield != nil && p.guards[node].config.Yield != nil {
			return &SharedServerError{p.names[node], p.names[i]}
		}
	}
	return nil
}

// longest returns how long a node has to wait: for those whose entries it has, and for the others.
// extra is how much longer than MaxTTL it waits. mu is held.
func (p *Peers) longest(node int, extra time.Duration) (wait time.Duration) {
	for i := range p.guards {
		h := p.heard(i)
		wait = max(wait, h.MaxTTL+extra)
		if i == node {
			wait = max(wait, h.Wait)
		}
	}
	return min((wait + time.Millisecond - 1).Truncate(time.Millisecond), maxWait)
}

// hasHeard reports whether the client has heard, since this moment, of so many other servers that
// they are a quorum with the node, wherever it counts, and of all that are up, as far as they
// answer. A zero time is one that has not come. mu is held.
func (p *Peers) hasHeard(node int, since, now time.Time) bool {
	if since.IsZero() {
		return false
	}
	nodes, servers := quorum.Node(node), map[string]bool{p.heard(node).RunID: true}
	for i := range p.guards {
		switch h := p.heard(i); {
		case i == node:
		case !h.At.Before(since):
			if h.RunID == "" || !servers[h.RunID] {
				nodes |= quorum.Node(i)
			}
			servers[h.RunID] = true
		case p.up.Has(i) && now.Sub(since) < hearTimeout:
			return false
		}
	}
	for _, set := range p.sets {
		if set.Has(node) && (nodes&set).Count() < quorum.Need(set.Count()) {
			return false
		}
	}
	return true
}

// askOthers has the other nodes asked for their layout entries soon.
func (p *Peers) askOthers(node int) {
	for i, g := range p.guards {
		if i != node {
			g.config.Layouts.RenewSoon()
		}
	}
}
