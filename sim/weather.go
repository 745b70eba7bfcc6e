package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// weather lets things go wrong, until the run's end.
type weather struct {
	run *run
	rng *rand.Rand
}

func (w *weather) blow() {
	plan := w.run.plan
	if plan.faults == 0 {
		return
	}
	for w.run.pause(around(w.rng, plan.faults)) {
		w.run.history.note("weather", w.fault())
	}
}

// fault does one bad thing, and tells which.
func (w *weather) fault() string {
	process, node := w.rng.IntN(w.run.plan.clients), w.rng.IntN(nodes)
	l := w.run.processes[process].links[node]
	short, long := around(w.rng, 100*time.Millisecond), around(w.rng, time.Second)
	kind := w.rng.IntN(10)
	lost := w.rng.IntN(2) == 0
	switch c := l.current(); kind {
	case 0, 1, 2:
		switch {
		case c == nil:
		case kind == 0:
			c.snap(lost)
		case kind == 1:
			c.deafen()
		default:
			c.silence()
		}
	case 3:
		w.run.frozen[node].set(time.Now().Add(long))
	case 4:
		w.run.processes[process].paused.set(time.Now().Add(short))
	case 5:
		l.part(long)
	case 6:
		l.slow.set(time.Now().Add(long))
	case 7:
		l.refusing.set(time.Now().Add(long))
		if c != nil {
			c.snap(lost)
		}
	case 8:
		w.split(process, node, long)
	default:
		for _, l := range w.run.processes[process].links {
			if c := l.current(); c != nil {
				c.snap(lost)
			}
		}
	}
	return fmt.Sprint("fault ", kind, " client ", process, " node ", node, " ", short, " ", long)
}

// mislead lets names lead to the servers of other nodes, until the run's end.
func (w *weather) mislead() {
	plan := w.run.plan
	for plan.aliases > 0 && w.run.pause(around(w.rng, plan.aliases)) {
		p := w.run.processes[w.rng.IntN(plan.clients)]
		w.run.history.note("weather", p.mislead(w.rng, around(w.rng, time.Second)))
	}
}

// forget lets nodes lose their memory, until the run's end.
func (w *weather) forget() {
	plan := w.run.plan
	if plan.forget == 0 {
		return
	}
	for w.run.pause(around(w.rng, plan.forget)) && w.run.known() {
		w.run.history.note("weather", w.loss())
	}
}

// loss takes the memory from one node, from a quorum or from all, and tells how.
func (w *weather) loss() string {
	switch {
	case w.run.plan.restores:
		return w.restore()
	case w.run.plan.demotes && w.rng.IntN(2) == 0:
		return w.demote()
	}
	count := []int{1, 1, 1, nodes/2 + 1, nodes/2 + 1, nodes}[w.rng.IntN(6)]
	from, kind, age := w.rng.IntN(nodes), w.rng.IntN(6), around(w.rng, w.run.plan.longest/2)
	if kind == 3 && w.rng.IntN(2) == 0 {
		for _, p := range w.run.processes {
			// What the nodes tell them comes all at once, when they go on.
			p.paused.set(time.Now().Add(below(w.rng, 20*time.Millisecond)))
		}
	}
	if w.run.plan.reserve {
		kind, age, count = 6, below(w.rng, w.run.plan.longest), max(count, nodes/2+1)
		if w.rng.IntN(2) == 0 {
			kind = 3
			if w.scatter(); !w.run.known() { // a client may have begun meanwhile
				return "no loss"
			}
		}
	}
	for i := range count {
		switch n := w.run.nodes[(from+i)%nodes]; kind {
		case 6:
			if w.run.up((from + i) % nodes) {
				n.replace(age)
			}
		case 0, 1:
			n.restart()
		case 2:
			n.failover(age)
		case 3:
			n.flush()
		default:
			n.save()
		}
	}
	return fmt.Sprint("loss ", kind, " of ", count, " from node ", from, " age ", age)
}

// scatter lets all clients lose their connections, and returns while they come back.
func (w *weather) scatter() {
	trip := 2 * w.run.plan.latency
	for _, p := range w.run.processes {
		time.AfterFunc(below(w.rng, 2*trip), p.snap)
	}
	time.Sleep(trip + below(w.rng, 3*trip))
}

// split parts one client from some nodes, or one node from all clients.
func (w *weather) split(process, node int, d time.Duration) {
	if w.rng.IntN(2) == 0 {
		for _, p := range w.run.processes {
			p.links[node].part(d)
		}
		return
	}
	for _, l := range w.run.processes[process].links {
		if w.rng.IntN(2) == 0 {
			l.part(d)
		}
	}
}
