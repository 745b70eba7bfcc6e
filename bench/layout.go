package bench

import (
	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/nodes"
)

// validateGroups requires that the nodes can be divided into the groups.
func (c Config) validateGroups(plan nodes.Plan, require func(ok bool, field string, value any,
	remedy string, args ...any),
) {
	size := plan.Size()
	require(c.Groups >= 1, "Groups", c.Groups, "give at least 1")
	require(c.Groups < 1 || size%c.Groups == 0, "Groups", c.Groups,
		"%d nodes can't be divided into so many groups of one size; give a divisor of %d, or "+
			"other nodes", size, size)
}

// useNodes gives a Client its nodes: one group without a name, or several with names.
func (c Config) useNodes(cfg *lockpipe.Config, urls []string) {
	if c.Groups == 1 {
		cfg.Nodes = urls
		return
	}
	cfg.Groups = nodes.Groups(urls, c.Groups)
}
