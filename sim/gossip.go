package sim

import (
	"math/rand/v2"
	"slices"
	"time"
)

// isDown reports whether a server has noticed that too few others answer. mu is held.
func (c *redisCluster) isDown(s *shard) bool {
	others := 0
	for _, side := range c.sides {
		if side != c.sides[s.number] {
			others++
		}
	}
	return others > nodes/2 && time.Since(c.cutAt) > c.run.plan.nodeTimeout
}

// setSides cuts servers on one side off from those on the other.
func (c *redisCluster) setSides(sides [nodes]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sides, c.cutAt = sides, time.Now()
}

// isCut reports whether servers are cut off from others.
func (c *redisCluster) isCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sides != [nodes]int{}
}

// hears reports whether a server hears of another one now. mu is held.
func (c *redisCluster) hears(a, b int) bool {
	return c.sides[a] == c.sides[b] && !c.run.frozenUntil[a].inFuture() &&
		!c.run.frozenUntil[b].inFuture()
}

// hear takes what another server says of itself. mu is held.
func (s *shard) hear(from *shard) {
	i := from.number
	s.current = max(s.current, from.current)
	s.epochs[i], s.masters[i] = from.epochs[i], from.masters[i]
	for slot, owner := range s.owners {
		claims := from.masters[i] == none && from.owners[slot] == i
		switch {
		case !claims && owner == i && from.masters[i] != none:
			s.owners[slot] = none
		case claims && !s.importing[slot] && (owner == none || s.epochs[owner] < s.epochs[i]):
			s.owners[slot] = i
			delete(s.migrating, slot)
		}
	}
	if from.masters[i] != none {
		return
	}
	of := s.masters[s.number] // whom it follows, or itself
	if of == none {
		of = s.number
	}
	switch {
	case !slices.Contains(s.owners, of): // another server has taken all that it had
		s.empty = s.empty || of == s.number
		s.masters[s.number] = i
	case of == s.number && s.epochs[i] == s.epochs[of] && s.number < i:
		s.claim()
	}
}

// claim gives a server an epoch that is higher than all that it has heard of. mu is held.
func (s *shard) claim() {
	s.current++
	s.epochs[s.number] = s.current
}

// gossip lets servers hear of each other until the run ends.
func (c *redisCluster) gossip(rng *rand.Rand) {
	for c.run.sleep(around(rng, c.run.plan.gossipEvery)) {
		c.talk(func() bool { return rng.IntN(2) == 0 })
	}
}

// talk lets each server hear of each other one for which heard returns true.
func (c *redisCluster) talk(heard func() bool) {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.mu.Lock()
	for _, s := range c.servers {
		for _, from := range c.servers {
			if s != from && heard() && c.hears(s.number, from.number) {
				s.hear(from)
			}
		}
	}
	c.mu.Unlock()
	c.demote()
}

// tell lets a server hear of another one, if it can.
func (c *redisCluster) tell(server, of int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hears(server, of) {
		c.servers[server].hear(c.servers[of])
	}
}

// demote makes the servers replicas that have heard that they are. Each keeps its data until it
// copies those of its master. changing is held.
func (c *redisCluster) demote() {
	for i, n := range c.run.nodes {
		if c.masterOf(i) != none && !n.IsReplica() {
			n.Follow(n.KeysFor(n))
		}
	}
}

// replicate lets replicas get the data of their masters until the run ends.
func (c *redisCluster) replicate(rng *rand.Rand) {
	for c.run.sleep(around(rng, c.run.plan.copyEvery)) {
		c.copyTo(rng.IntN(nodes))
	}
}

// copyTo lets a server, if it is a replica, get the data of its master.
func (c *redisCluster) copyTo(replica int) {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.mu.Lock()
	s := c.servers[replica]
	master := s.masters[replica]
	able, full := master != none && c.hears(replica, master), s.empty
	s.empty = s.empty && !able
	c.mu.Unlock()
	if !able {
		return
	}
	n := c.run.nodes[replica]
	if keys := c.run.nodes[master].KeysFor(n); full {
		n.Sync(keys)
	} else {
		n.Follow(keys)
	}
}

// heal lets all servers hear all, and all replicas get the newest data.
func (c *redisCluster) heal() {
	c.setSides([nodes]int{})
	for range 2 * nodes {
		c.talk(func() bool { return true })
	}
	for i := range nodes {
		c.copyTo(i)
	}
}
