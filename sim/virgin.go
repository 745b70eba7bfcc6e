package sim

import (
	"fmt"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
)

// injectEarlyLoss takes the data from one node while several clients use the nodes for the first
// time. If all nodes that were admitted lost their data, it would go unnoticed. So there are three
// nodes and one loss.
//
// Around that, one client gets behind the others in one of three ways.
func (m *nemesis) injectEarlyLoss() {
	r, plan := m.run, m.run.plan
	if !plan.virgin {
		return
	}
	group, late := plan.layouts[0][0], r.processes[m.rng.IntN(plan.clients)]
	a, b, c := group[0], group[1], group[2]
	kind := m.rng.IntN(2)
	if kind == 0 && !plan.heldUp { // it sees one node before the loss, and the others after it
		late.links[b].up.heldUntil.set(r.end)
		late.links[c].up.heldUntil.set(r.end)
		r.awaitSoon(func() bool { return late.hasMet(r.server(a)) })
		after := below(m.rng, 8*plan.latency)
		time.AfterFunc(after, func() { late.links[a].partition(plan.length) })
	}
	if !r.awaitSoon(func() bool { return r.isNamed(a) || r.isNamed(b) || r.isNamed(c) }) {
		return
	}
	if plan.heldUp {
		m.holdUp(group)
		return
	}
	if kind == 1 { // it stops before it admits nodes
		late.pausedUntil.set(time.Now().Add(longestWait))
	}
	for _, p := range r.processes { // one node is not admitted by the others
		if p != late && !r.isNamed(c) {
			p.links[c].partition(plan.length)
		}
	}
	r.awaitSoon(func() bool { return len(r.history.openHolds()) > 0 })
	lost := b
	if !r.isNamed(b) {
		lost = a
	}
	r.server(lost).Wipe()
	for _, p := range r.processes { // nobody who knows the node may be quicker
		if p != late && m.rng.IntN(4) > 0 {
			p.links[lost].partition(plan.length)
		}
	}
	r.history.note("nemesis", fmt.Sprint("early loss of ", lost, " kind ", kind))
	for _, l := range late.links {
		l.up.heldUntil.set(time.Now())
		l.up.reschedule()
	}
}

// holdUp lets the first client, which has admitted one node, reach the others late. The node loses
// its data after the client may have got a vote there, and does not hear of it. The client reaches
// another node when somebody has admitted the first one again.
func (m *nemesis) holdUp(group []int) {
	r, first, lost := m.run, m.run.processes[0], group[0]
	next := lost
	for _, i := range m.rng.Perm(len(group)) {
		node := group[i]
		if r.isNamed(node) {
			lost = node
			continue
		}
		next = node
		first.links[node].up.heldUntil.set(time.Now().Add(2 * longestWait))
	}
	time.Sleep(below(m.rng, 20*r.plan.latency))
	r.server(lost).Wipe()
	first.links[lost].partition(r.plan.length)
	r.history.note("nemesis", fmt.Sprint("early loss of ", lost, ", and client 0 is held up"))
	r.awaitSoon(func() bool { return r.isNamed(lost) })
	first.links[next].up.heldUntil.set(time.Now())
	first.links[next].up.reschedule()
}

// longestWait is how long awaitSoon waits at most.
const longestWait = 200 * time.Millisecond

// awaitSoon waits until met returns true, which it looks at often. It returns whether that is so.
func (r *run) awaitSoon(met func() bool) bool {
	for end := time.Now().Add(longestWait); !met(); {
		if !time.Now().Before(end) || !r.sleep(r.plan.latency/4) {
			return met()
		}
	}
	return true
}

// isNamed reports whether the guard's key of a node has the name of the server's memory.
func (r *run) isNamed(node int) bool {
	text, _ := r.server(node).Get(prefix + ids.AdmittedKey)
	return text == r.server(node).RunID()
}
