package sim

import (
	"math/rand/v2"
	"time"

	"github.com/lockpipe/lockpipe"
)

// drawTurns draws servers that take turns. See injectTurns.
func (p *Plan) drawTurns(rng *rand.Rand) {
	p.turns = p.wants(rng, p.mix.Turning) && p.losesGuardedly() && !p.restores && !p.demotes &&
		p.aliasEvery == 0
	if p.turns && p.mix.Turning {
		p.length += 3 * p.clientMaxTTL
	}
}

// drawVaried draws clients that differ.
func (p *Plan) drawVaried(rng *rand.Rand) {
	p.varied = p.wants(rng, p.mix.Varied)
	p.mixed = p.varied && p.losesGuardedly() && !p.restores && !p.demotes &&
		!p.turns && p.aliasEvery == 0
	if p.mixed {
		p.clientMaxTTL = 3 * time.Second
		p.minTTL, p.maxTTL = p.clientMaxTTL/2, p.clientMaxTTL
		p.lossEvery = 500 * time.Millisecond // and then the longest MaxTTL
		p.length += 5 * (p.clientMaxTTL + guardLag)
	}
}

// drawMaxTTL returns the MaxTTL of a new client.
func (p *Plan) drawMaxTTL(rng *rand.Rand) time.Duration {
	if d := rng.IntN(2); p.mixed && d > 0 {
		return p.clientMaxTTL / 6
	}
	return p.clientMaxTTL
}

// drawTimeout returns the NodeTimeout of a new client.
func (p *Plan) drawTimeout(rng *rand.Rand) time.Duration {
	if d := rng.IntN(3); p.varied {
		return []time.Duration{p.timeout / 2, p.timeout, 2 * p.timeout}[d]
	}
	return p.timeout
}

// drawClocks draws clocks of nodes that are set forward in a wait.
func (p *Plan) drawClocks(rng *rand.Rand) {
	p.clocks = p.wants(rng, p.mix.Clocked) && p.losesGuardedly() && !p.turns && !p.mixed
	if p.clocks {
		p.clientMaxTTL = 6 * time.Second
		p.minTTL, p.maxTTL, p.lossEvery = p.clientMaxTTL*3/4, p.clientMaxTTL, p.clientMaxTTL
		p.length += 3 * p.clientMaxTTL
	}
}

// drawSimpleServers draws nodes that know no tracking.
func (p *Plan) drawSimpleServers(rng *rand.Rand) {
	if p.wants(rng, p.mix.Simple) {
		p.simpleNodes = min(nodes, 1+rng.IntN(2*nodes))
	}
}

// drawObservers draws programs that look at the nodes.
func (p *Plan) drawObservers(rng *rand.Rand) { p.observes = p.wants(rng, p.mix.Observed) }

// drawVirgins draws three nodes that are used for the first time.
func (p *Plan) drawVirgins(rng *rand.Rand) {
	if !p.mix.Virgin && (p.mix != Mix{} || rng.IntN(8) > 0) || p.lossEvery > 0 ||
		p.guard != lockpipe.GuardAuto || p.aliasEvery > 0 {
		return
	}
	p.virgin, p.restartEvery, p.hangAtEnd = true, 0, 0
	p.length = 400*time.Millisecond + below(rng, 300*time.Millisecond)
	p.clientMaxTTL = time.Second
	p.minTTL, p.maxTTL, p.thinkTime = 800*time.Millisecond, p.clientMaxTTL, 5*time.Millisecond
	p.clockSkew = min(p.clockSkew, p.clientMaxTTL*3/4-1)
	if rng.IntN(4) > 0 { // little else happens
		p.faultEvery, p.suspendEvery, p.spikes, p.keys = 0, 0, 0, 1
		p.latency, p.timeout = min(p.latency, time.Millisecond), 200*time.Millisecond
	}
	if p.heldUp = rng.IntN(3) == 0; p.heldUp {
		p.clients = 2
	}
	p.layouts = []nodeGroups{{rng.Perm(nodes)[:3]}}
}

// drawStart returns how long after another client one starts that uses nodes for the first time.
func (p *Plan) drawStart(rng *rand.Rand) time.Duration {
	if p.heldUp {
		return 15*time.Millisecond + below(rng, 30*p.latency)
	}
	trips := []int64{0, 2, 20, 60}[rng.IntN(4)]
	return below(rng, 1+time.Duration(trips*int64(p.latency)))
}

// forgets reports whether nodes lose data.
func (p *Plan) forgets() bool {
	return p.lossEvery > 0 || p.virgin || p.slots > 0 && !p.movesOnly
}
