package lockpipe

import (
	"time"

	"github.com/lockpipe/lockpipe/internal/layout"
	"github.com/lockpipe/lockpipe/internal/outage"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/lease"
)

// Group is a group of independent masters. A lock on a key of the group needs a quorum of them.
type Group struct {
	// Name is what places keys: see Config.Groups. It has at most 64 bytes, and stays the same
	// when nodes are replaced.
	Name string
	// Nodes are the masters: see Config.Nodes.
	Nodes []string
}

// GroupOf returns the name of the group that a key belongs to: of Config.Groups, also while the
// fleet moves to Config.Next. It is empty if Config.Nodes is set.
func (c *Client) GroupOf(key string) string { return c.mux.GroupOf(key) }

// group is what a Client has for each group of nodes, besides the nodes. Groups that share nodes
// while the fleet moves have one together.
type group struct {
	leases *lease.Manager // of leases whose only part is here
	outage *outage.Queue  // of calls that lack a quorum here
}

// newGroups makes what the client has for each group of nodes. Leases of several parts have a
// manager of their own: their extensions wait for the slowest of their groups, and must not hold up
// those of leases that do not need it.
func (c *Client) newGroups(n int, suspended func(now time.Time) time.Duration) {
	manager := func(reachable func() bool) *lease.Manager {
		m := lease.NewManager(lease.Config{
			Extend:          c.extendBatch,
			QuorumReachable: reachable,
			OnEnd:           c.outcomes.ended,
			OnUnexpectedEnd: func(owner any, end error) { c.leaseEnded(owner.(*Lease), end) },
			Suspended:       suspended,
		})
		c.managers = append(c.managers, m)
		return m
	}
	c.groups = make([]group, n)
	for i := range c.groups {
		reachable := func() bool { return c.mux.QuorumReachable(i) }
		c.groups[i] = group{manager(reachable), outage.New(reachable, c.cfg.Logger)}
	}
	c.ofSeveral = manager(func() bool { return c.mux.SeveralReachable() })
}

// leases returns the manager of a lease.
func (c *Client) leases(l *Lease) *lease.Manager {
	if l.claim.HasSeveral() {
		return c.ofSeveral
	}
	return c.groups[l.claim.Group()].leases
}

// suspended returns for how long the machine was suspended until now: see lease.Grant.
func (c *Client) suspended() time.Duration { return c.managers[0].Suspended() }

// parking is a waiting call during an outage, in the queue of a group that lacks a quorum.
type parking struct {
	call outage.Call
	in   *outage.Queue // nil before the first outage
}

// admit reports whether a call for these keys may make an attempt now: see outage.Queue.Admit. A
// call stays in the queue that woke it, unless another group lacks a quorum now.
func (p *parking) admit(c *Client, keys []string) bool {
	group, lacks := c.mux.Lacking(keys)
	if in := c.groups[group].outage; p.in == nil || lacks && p.in != in {
		p.finish()
		p.in = in
	}
	return p.in.Admit(&p.call)
}

// finish says that the nodes have answered the call, or that the call ends.
func (p *parking) finish() {
	if p.in != nil {
		p.in.Finish(&p.call)
	}
}

// parts returns the nodes of a configuration, for package parts to check.
func (cfg *Config) parts() parts.Config {
	list := func(groups []Group) []layout.Group {
		var all []layout.Group
		for _, g := range groups {
			all = append(all, layout.Group(g))
		}
		return all
	}
	return parts.Config{
		Nodes: cfg.Nodes, Groups: list(cfg.Groups), Next: list(cfg.Next), TLS: cfg.TLS,
	}
}
