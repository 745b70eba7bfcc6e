package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/ids"
)

// seenAfter is after what time all clients that a node keeps waiting have seen its record: they
// look every two seconds.
const seenAfter = 3 * time.Second

// injectClocks sets clocks of nodes forward whose wait all clients have seen begin. A client that
// has not seen it begin believes the clock. So none starts until the wait is over.
func (m *nemesis) injectClocks() {
	r := m.run
	var since [nodes]time.Time
	var texts [nodes]string
	for r.plan.clocks && r.sleep(100*time.Millisecond) {
		for node := range nodes {
			n := r.server(node)
			text, _ := n.Get(prefix + ids.AdmittedKey)
			if text != texts[node] {
				texts[node], since[node] = text, time.Now()
			}
			if time.Since(since[node]) < seenAfter || !r.allKeptWaiting(node, since[node]) {
				continue
			}
			r.noStartUntil.set(time.Now().Add(r.plan.clientMaxTTL + guardLag))
			d := below(m.rng, 2*r.plan.clientMaxTTL)
			n.AdvanceClock(d)
			since[node] = time.Now().Add(r.plan.clientMaxTTL)
			r.history.note("nemesis", fmt.Sprint("clock of ", node, " set by ", d))
		}
	}
}

// allKeptWaiting reports whether a node keeps all clients waiting under its own name, in the wait
// that began at a time. A client whose dial hangs still waits as it did before that.
func (r *run) allKeptWaiting(node int, began time.Time) bool {
	return !slices.ContainsFunc(r.processes, func(p *process) bool {
		s := p.stateOf(node)
		return s.State != lockpipe.NodeQuarantined || !p.links[node].isDirect() ||
			s.Until.Before(began.Add(r.plan.clientMaxTTL))
	})
}
