package guard

import (
	"log/slog"
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
	sets   []quorum.Nodes // in each of which claims need a quorum
	guards []*Guard       // set before one of them is used

	mu    sync.Mutex   // guards all below; what nodes have heard is asked under it
	up    quorum.Nodes // those that vote, or were not tried yet
	first firstUse
	// knows is since when the client has seen a name, or a record that is no new one; zero: never.
	knows time.Time
}

// NewPeers returns the Peers of n nodes, 64 at most. Claims need a quorum in each of some of the
// sets.
func NewPeers(n int, sets []quorum.Nodes) *Peers {
	all := quorum.First(n)
	return &Peers{
		sets: sets, guards: make([]*Guard, n), up: all,
		first: firstUse{nodes: all, texts: make([]string, n)},
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

// Joined records that the node votes, on the server that was admitted last. It logs which nodes
// have one vote with it.
func (g *Guard) Joined() {
	p := g.peers
	p.setUp(g.config.Node, true)
	for i, one := range p.guards {
		if why := p.Shared(i); why != nil && p.heard(i).RunID == g.server.RunID {
			g.config.Logger.Warn("lockpipe: two nodes have one vote",
				slog.String("node", one.config.Name), slog.Any("error", why))
		}
	}
}

// Shared returns why a node has no vote of its own: a node of lower number that votes is on its
// server. It returns nil if none is.
func (p *Peers) Shared(node int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	slot, runID := p.guards[node].config.InCluster, quorum.Identity(p.heard(node).RunID)
	for _, set := range p.sets {
		for i := range node {
			if set.Has(node) && (set & p.up).Has(i) && p.guards[i].config.InCluster == slot &&
				p.heard(i).RunID == runID && runID != "" {
				return &quorum.SameServerError{Other: p.guards[i].config.Name, Slot: slot}
			}
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
	heard := quorum.Nodes(0)
	for i := range p.guards {
		switch h := p.heard(i); {
		case i == node:
		case !h.At.Before(since):
			heard |= quorum.Node(i)
		case p.up.Has(i) && now.Sub(since) < hearTimeout:
			return false
		}
	}
	for _, set := range p.sets {
		if set.Has(node) && p.servers(node, heard&set) < quorum.Need(set.Count()) {
			return false
		}
	}
	return true
}

// servers returns how many servers a node and these other nodes are. Two without a run_id count as
// two. mu is held.
func (p *Peers) servers(node int, others quorum.Nodes) int {
	seen, all := map[string]bool{p.heard(node).RunID: true}, 1
	for s := others; s != 0; s &= s - 1 {
		id := p.heard(s.Lowest()).RunID
		if id == "" || !seen[id] {
			all++
		}
		seen[id] = true
	}
	return all
}

// askOthers has the other nodes asked for their layout entries soon.
func (p *Peers) askOthers(node int) {
	for i, g := range p.guards {
		if i != node {
			g.config.Layouts.RenewSoon()
		}
	}
}
