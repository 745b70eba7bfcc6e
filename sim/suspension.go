package sim

import (
	"fmt"
	"time"

	"github.com/lockpipe/lockpipe/sim/simrand"
)

// injectSuspensions suspends all clients together now and then, until the run ends.
func (m *nemesis) injectSuspensions() {
	plan := m.run.plan
	for plan.suspendEvery > 0 && m.run.sleep(around(m.rng, plan.suspendEvery)) {
		d := 1 + below(m.rng, plan.maxTTL)
		m.run.suspendClients(d, func() bool { return m.rng.IntN(2) == 0 })
		m.run.history.note("nemesis", fmt.Sprint("stop ", d))
	}
}

// suspendClients lets d pass for the nodes and not for the clients, whose clocks stand still.
// looksAtLease is asked for each holder whether it looks at its lease right after that.
func (r *run) suspendClients(d time.Duration, looksAtLease func() bool) {
	now, open := time.Now(), r.history.openHolds()
	left := make([]time.Duration, len(open))
	for i, b := range open {
		left[i] = b.lease.Until().Sub(now)
	}
	simrand.Suspend(d)
	r.history.passForNodes(d)
	for _, n := range r.nodes {
		n.AdvanceClock(d)
	}
	for i, b := range open {
		b.recordSuspension(left[i], d, looksAtLease())
	}
}
