package sim

import (
	"fmt"
	"math/rand/v2"
	"sync"
)

// What lockpipe can't notice is left out:
//
//   - A slot is given to a server by hand that is neither its owner nor got its keys: see the
//     comment of package cluster.
//   - Keys of a slot that moves are lost with its next owner, and the move is given up. The former
//     owner votes on, with the guard's key, if that had not moved yet.

// injectShardFaults moves slots, lets replicas take over and cuts servers off, until the run ends.
func (m *nemesis) injectShardFaults(all *sync.WaitGroup) {
	r, c := m.run, m.run.cluster
	if c == nil {
		return
	}
	all.Go(func() { c.gossip(rand.New(rand.NewPCG(r.seed, 51))) })
	all.Go(func() { c.replicate(rand.New(rand.NewPCG(r.seed, 52))) })
	for r.sleep(around(m.rng, r.plan.shardEvery)) {
		kind, seed := m.rng.IntN(8), m.rng.Uint64()
		if r.plan.movesOnly || kind < 3 {
			all.Go(func() { c.moveSlot(rand.New(rand.NewPCG(seed, 0))) })
			continue
		}
		if !r.awaitAllMetNode() {
			return
		}
		switch {
		case kind < 6: // while servers are cut off, both sides are to have slots that vote
			all.Go(func() { c.depose(rand.New(rand.NewPCG(seed, 0))) })
		case c.isCut():
		case kind < 7:
			m.takeOver()
		default:
			m.emptyServer()
		}
	}
}

// emptyServer restarts a server that takes no part in a move, or flushes it.
func (m *nemesis) emptyServer() {
	c, i, flushes := m.run.cluster, m.rng.IntN(nodes), m.rng.IntN(2) == 0
	c.changing.Lock()
	defer c.changing.Unlock()
	c.mu.Lock()
	s := c.servers[i]
	busy := len(s.migrating)+len(s.importing) > 0
	c.mu.Unlock()
	n := c.run.nodes[i]
	switch {
	case busy:
		return
	case flushes && !n.IsReplica():
		n.Wipe()
	default:
		n.Restart()
	}
	m.run.history.note("nemesis", fmt.Sprint(i, " restarts, or it is flushed: ", flushes))
}
