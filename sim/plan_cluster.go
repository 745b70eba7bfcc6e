package sim

import (
	"math/rand/v2"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/cluster"
)

// drawCluster makes the nodes the servers of one Redis Cluster. What happens to nodes by themselves
// in other runs happens to the cluster here.
func (p *Plan) drawCluster(rng *rand.Rand) {
	if drawn := rng.IntN(12) == 0; !p.mix.Clustered && (!drawn || p.mix != Mix{}) {
		return
	}
	oneOf := func(choices ...time.Duration) time.Duration { return choices[rng.IntN(len(choices))] }
	p.slots, p.masters = []int{1, 3, 3, 3, 3, 5}[rng.IntN(6)], 3+rng.IntN(2)
	if p.slots == nodes && rng.IntN(2) == 0 {
		p.masters = nodes
	}
	for i := range nodes {
		p.replicaOf[i] = rng.IntN(p.masters)
	}
	p.movesOnly = rng.IntN(4) == 0
	p.shardEvery = oneOf(2*time.Second, 4*time.Second, 8*time.Second)
	p.gossipEvery = oneOf(10*time.Millisecond, 100*time.Millisecond, 500*time.Millisecond)
	p.copyEvery = oneOf(20*time.Millisecond, 200*time.Millisecond, time.Second)
	p.nodeTimeout = oneOf(2*time.Second, 15*time.Second, time.Minute)
	p.clientMaxTTL = oneOf(500*time.Millisecond, 2*time.Second, 4*time.Second)
	p.minTTL, p.maxTTL = p.clientMaxTTL*3/4, p.clientMaxTTL
	p.thinkTime = oneOf(20*time.Millisecond, 100*time.Millisecond, 400*time.Millisecond)
	p.length = 2*(p.clientMaxTTL+cluster.DeposedFor+guardLag) + below(rng, 15*time.Second)
	p.clockSkew = min(p.clockSkew, p.clientMaxTTL*3/4-1)
	p.durableNodes = rng.IntN(nodes + 1)
	if p.guard == lockpipe.GuardOff {
		p.guard = lockpipe.GuardAuto
	}
	p.lossEvery, p.aliasEvery, p.hangAtEnd, p.resetPercent, p.hiddenNodes = 0, 0, 0, 0, 0
	p.restores, p.demotes, p.turns, p.mixed, p.clocks = false, false, false, false, false
	p.virgin, p.heldUp, p.replacements, p.layouts = false, false, false, nil
}
