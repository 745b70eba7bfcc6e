package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/memorynode"
)

// longestSurge is how long old connections may still lead to the former server while new ones lead
// to the next. The guard takes a second off the age of a wait, and server clocks are up to 1 %
// fast. A longer surge goes unnoticed: who stays on the former server votes there while the wait of
// the next one ends.
const longestSurge = 700 * time.Millisecond

// injectTurns lets two servers take turns behind the names of nodes, until the run ends.
func (m *nemesis) injectTurns() {
	plan := m.run.plan
	for plan.turns && m.run.sleep(around(m.rng, plan.lossEvery)) {
		text, ok := m.changeServer(m.rng.IntN(nodes))
		m.run.history.note("nemesis", text)
		if !ok {
			return
		}
	}
}

// changeServer lets the name of a node lead to its other server. It returns when all clients have
// met that one; ok is false if the run ends before.
//
// If a client has not met that server before, an empty one comes in its place. What it would not
// notice is left out: a client that knows B alone is connected when A returns; and one that sees
// nothing of B between A and A. No client starts before the one that returns has its record.
func (m *nemesis) changeServer(node int) (text string, ok bool) {
	r := m.run
	from := r.serving[node].Load()
	to := r.twins[node]
	if from == to {
		to = r.nodes[node]
	}
	if r.noStartUntil.set(r.end); !r.awaitAllMetNode() {
		return "no turn", false
	}
	defer func() { r.noStartUntil.set(time.Now()) }()
	returns := r.allMet(to)
	if !returns {
		to.Replace(0)
	}
	before, _ := to.Get(prefix + ids.AdmittedKey)
	surge := time.Duration(0)
	if r.plan.suspendEvery == 0 && m.rng.IntN(2) == 0 {
		surge = longestSurge
	}
	for _, p := range r.processes { // who meets it again after this
		p.forget(to)
	}
	r.serving[node].Store(to)
	for _, p := range r.processes {
		if surge == 0 {
			p.resetConn(node)
		} else {
			time.AfterFunc(below(m.rng, surge), func() { p.resetConn(node) })
		}
	}
	ok = r.await(func() bool {
		text, _ := to.Get(prefix + ids.AdmittedKey)
		return r.allMet(to) && text != before
	})
	return fmt.Sprint("turn of node ", node, " returns ", returns, " surge ", surge), ok
}

// allMet reports whether all clients have met a server.
func (r *run) allMet(server *memorynode.Node) bool {
	return !slices.ContainsFunc(r.processes, func(p *process) bool { return !p.hasMet(server) })
}
