package lockpipe

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockpipe/lockpipe/internal/layout"
	"github.com/lockpipe/lockpipe/internal/outage"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
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
	c.ofSeveral = manager(c.severalReachable)
}

// severalReachable reports whether enough groups can reach a quorum for a lease of several parts.
func (c *Client) severalReachable() bool {
	reachable := 0
	for i := range c.groups {
		if c.mux.QuorumReachable(i) {
			reachable++
		}
	}
	return reachable >= 2
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

// admit reports whether a call for these keys may make an attempt now: see outage.Queue.Admit.
func (p *parking) admit(c *Client, keys []string) bool {
	if in := c.groups[c.mux.Lacking(keys)].outage; p.in != in {
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

const (
	// maxGroups bounds the memory and the goroutines of a client.
	maxGroups = 64
	// maxGroupName is the longest name of a group.
	maxGroupName = 64
)

// checkGroups returns an error that is ErrInvalid about Nodes, Groups or Next.
func (cfg *Config) checkGroups() error {
	switch {
	case len(cfg.Nodes) == 0 && len(cfg.Groups) == 0:
		return invalid("Config.Nodes is empty: give one URL for each master")
	case len(cfg.Nodes) > 0 && len(cfg.Groups) > 0:
		return invalid("Config.Nodes and Config.Groups are both set: give the nodes of the only " +
			"group, or groups with their names")
	case len(cfg.Nodes) > multiplex.MaxNodes:
		return invalid("Config.Nodes has %d entries: give at most %d", len(cfg.Nodes),
			multiplex.MaxNodes)
	}
	if err := checkGroupList("Groups", cfg.Groups); err != nil {
		return err
	}
	return checkGroupList("Next", cfg.Next)
}

// checkGroupList returns an error that is ErrInvalid about one list of groups.
func checkGroupList(field string, groups []Group) error {
	if len(groups) > maxGroups {
		return invalid("Config.%s has %d groups: give at most %d", field, len(groups), maxGroups)
	}
	for i, g := range groups {
		same := func(other Group) bool { return other.Name == g.Name }
		first := slices.IndexFunc(groups, same)
		switch {
		case g.Name == "":
			return invalid("Config.%s[%d].Name is empty: give each group a name that it keeps when "+
				"its nodes are replaced", field, i)
		case len(g.Name) > maxGroupName:
			return invalid("Config.%s[%d].Name has %d bytes: give at most %d", field, i,
				len(g.Name), maxGroupName)
		case first != i:
			return invalid("Config.%s[%d].Name is %q, and so is that of %s[%d]: give each group a "+
				"name of its own", field, i, g.Name, field, first)
		case len(g.Nodes) == 0:
			return invalid("Config.%s[%d].Nodes is empty: give group %q one URL for each master",
				field, i, g.Name)
		case len(g.Nodes) > multiplex.MaxNodes:
			return invalid("Config.%s[%d].Nodes has %d entries: give at most %d", field, i,
				len(g.Nodes), multiplex.MaxNodes)
		}
	}
	return nil
}

// parts returns the nodes of a configuration that was checked.
func (cfg *Config) parts() parts.Config {
	list := func(groups []Group) []layout.Group {
		var all []layout.Group
		for _, g := range groups {
			all = append(all, layout.Group(g))
		}
		return all
	}
	all := parts.Config{Groups: list(cfg.Groups), Next: list(cfg.Next), TLS: cfg.TLS}
	if len(cfg.Nodes) > 0 {
		all.Groups = []layout.Group{{Nodes: cfg.Nodes}}
	}
	all.Field = func(next bool, group int) string {
		switch {
		case next:
			return fmt.Sprintf("Config.Next[%d].Nodes", group)
		case len(cfg.Nodes) > 0:
			return "Config.Nodes"
		}
		return fmt.Sprintf("Config.Groups[%d].Nodes", group)
	}
	return all
}
