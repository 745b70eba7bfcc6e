package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockpipe/lockpipe/internal/cluster"
)

// takeOver lets a replica take the place of its master, at once and without asking anybody, as
// CLUSTER FAILOVER TAKEOVER does. It has the data of its last copy, or of a new one.
func (m *nemesis) takeOver() {
	c, full := m.run.cluster, m.rng.IntN(3) == 0
	replica, _ := c.anyReplica(m.rng)
	if full {
		c.copyTo(replica)
	}
	if master, ok := c.takeOver(replica); ok {
		m.run.history.note("nemesis", fmt.Sprint(replica, " takes over from ", master, " newest ",
			full, ": ", c.views()))
	}
}

// takeOver makes a replica a master. ok is false if it is none, or if its master is about to get a
// slot.
func (c *redisCluster) takeOver(replica int) (master int, ok bool) {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.mu.Lock()
	s := c.servers[replica]
	master = s.masters[replica]
	ok = master != none && len(c.servers[master].importing) == 0 && !s.empty
	c.mu.Unlock()
	if !ok {
		return master, false
	}
	c.run.nodes[replica].Promote()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.masters[replica] = none
	s.claim()
	for slot, owner := range s.owners {
		if owner == master {
			s.owners[slot] = replica
		}
	}
	return master, true
}

// depose cuts some servers off from the others, and some clients from either. A replica takes over
// on one side, and its former master goes on with the clients that still reach it.
func (c *redisCluster) depose(rng *rand.Rand) {
	r := c.run
	replica, master := c.anyReplica(rng)
	d := r.plan.clientMaxTTL + cluster.DeposedFor + guardLag + below(rng, 8*time.Second)
	if master == none {
		return
	}
	sides := c.drawSides(rng, replica, master)
	if c.isCut() {
		return
	}
	c.setSides(sides)
	for number, process := range rng.Perm(len(r.processes)) {
		side := number // the first two are on either side
		if number > 1 {
			side = rng.IntN(3) // 2: on both
		}
		for i, l := range r.processes[process].links {
			if side < 2 && sides[i] != side {
				l.partition(d)
			}
		}
	}
	r.history.note("nemesis", fmt.Sprint("servers on sides ", sides, " for ", d))
	began := time.Now()
	r.sleep(around(rng, 300*time.Millisecond))
	_, ok := c.takeOver(replica)
	r.history.note("nemesis", fmt.Sprint(replica, " takes over from ", master, " there: ", ok))
	r.sleep(time.Until(began.Add(d)))
	c.setSides([nodes]int{})
	r.history.note("nemesis", fmt.Sprint("all servers hear of each other: ", c.views()))
}

// drawSides puts a master on one side and its replica on the other. In half of all cases only one
// other master is with the first: together they have two slots.
func (c *redisCluster) drawSides(rng *rand.Rand, replica, master int) (sides [nodes]int) {
	few, second := rng.IntN(2) == 0, c.anyMaster(rng)
	for i := range sides {
		if sides[i] = rng.IntN(2); few && i != second {
			sides[i] = 1
		}
	}
	if few {
		sides[second] = 0
	}
	sides[master], sides[replica] = 0, 1
	return sides
}
