package keyqueue

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// plan says what an exploration tries. Each call wants always the same keys, and enters again and
// again. Everything else may happen at any time, in any order.
type plan struct {
	keys    []string    // of each call
	inside  map[int]int // this call enters only while that one holds, which leaves only after it
	foreign string      // keys that other processes may hold
}

// world is a state of a queue and its calls.
type world struct {
	q     *Queue
	calls []*Call
}

// step is one thing that a call does. It is what fails are reported in.
type step struct {
	what string
	call int
	key  string // of contend
}

// visit is how the exploration came to a world.
type visit struct {
	world *world
	from  *visit
	by    step
}

func (v *visit) path() (steps []string) {
	for ; v.from != nil; v = v.from {
		steps = append(steps, fmt.Sprint(v.by.what, v.by.call, v.by.key))
	}
	slices.Reverse(steps)
	return steps
}

// explorer visits all worlds of a plan.
type explorer struct {
	plan plan
	ran  []int // the calls that were notified of their turn in this step
}

// probe is the Caller of a call.
type probe struct {
	x    *explorer
	call int
}

func (p probe) Notify(n News) {
	if n == Turn {
		p.x.ran = append(p.x.ran, p.call)
	}
}

// clone copies a world.
func (w *world) clone() *world {
	calls, names := make(map[*Call]*Call), make(map[*key]*key)
	twin := &world{q: &Queue{arrivals: w.q.arrivals, keys: make(map[string]*key)}}
	twin.q.waiting.Store(w.q.waiting.Load())
	twin.q.known.Store(w.q.known.Load())
	for _, c := range w.calls {
		copied := *c
		calls[c] = &copied
		twin.calls = append(twin.calls, &copied)
	}
	for name, k := range w.q.keys {
		copied := &key{
			name: name, owner: calls[k.owner], contender: calls[k.contender],
			reserver: calls[k.reserver], foreign: k.foreign, overtakers: slices.Clone(k.overtakers),
		}
		for _, c := range k.parked {
			copied.parked = append(copied.parked, calls[c])
		}
		for _, c := range k.queue {
			copied.queue = append(copied.queue, calls[c])
		}
		names[k], twin.q.keys[name] = copied, copied
	}
	for old, c := range calls {
		if old == nil {
			continue
		}
		c.parkedAt, c.keys = names[old.parkedAt], nil
		for _, k := range old.keys {
			c.keys = append(c.keys, names[k])
		}
	}
	return twin
}

// id is the same for worlds that behave in the same way.
func (w *world) id() string {
	var s strings.Builder
	for _, c := range w.calls {
		rank := 0
		for _, o := range w.calls {
			if o.arrival < c.arrival {
				rank++
			}
		}
		s.WriteByte('|')
		s.WriteByte("owcr"[c.state])
		if c.state == outside || c.granted {
			if c.granted {
				s.WriteByte('h')
			}
			continue
		}
		s.WriteByte(byte('0' + rank))
		s.WriteByte(byte('0' + c.refused))
		if c.parkedAt != nil {
			s.WriteString(c.parkedAt.name)
		}
		for _, k := range c.keys {
			s.WriteByte(byte('0' + k.overtakenCount(c.arrival)))
			if k.reserver == c {
				s.WriteByte('!')
			}
			if k.contender == c {
				s.WriteByte('?')
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.q.keys)) {
		if w.q.keys[name].foreign {
			s.WriteString("&" + name)
		}
	}
	return s.String()
}

// steps are what may happen in w.
func (x *explorer) steps(w *world) (all []step) {
	for i, c := range w.calls {
		does := func(what string) { all = append(all, step{what, i, ""}) }
		if c.state == waiting || c.state == contending {
			does("giveup")
		}
		if slices.ContainsFunc(c.keys, func(k *key) bool { return k.reserver == c }) {
			does("unreserve")
		}
		switch {
		case c.state == outside && x.mayEnter(w, i):
			does("enter")
		case c.state == contending:
			does("retry")
		case c.granted && x.mayLeave(w, i):
			does("leave")
			does("succeed")
		case c.state == running && !c.granted:
			does("hold")
			does("leave")
			for _, k := range keys(x.plan.keys[i]) {
				if strings.Contains(x.plan.foreign, k) {
					all = append(all, step{"contend", i, k})
				}
			}
		}
	}
	return all
}

func (x *explorer) mayEnter(w *world, i int) bool {
	outer, isInside := x.plan.inside[i]
	return !isInside || w.calls[outer].granted
}

func (x *explorer) mayLeave(w *world, i int) bool {
	for inner, outer := range x.plan.inside {
		if outer == i && w.calls[inner].state != outside {
			return false
		}
	}
	return true
}

// do does a step. It returns the call that runs by it without a notification; -1: none.
func (x *explorer) do(w *world, s step) (direct int) {
	c, runs := w.calls[s.call], false
	switch s.what {
	case "enter":
		runs, _ = w.q.Enter(c, keys(x.plan.keys[s.call]), unlimited)
	case "giveup":
		w.q.GiveUp(c)
	case "unreserve":
		w.q.Unreserve(c)
	case "retry":
		runs = w.q.Retry(c)
	case "contend":
		w.q.Contend(c, s.key, false)
		refuseFaster(c)
	case "leave":
		w.q.Leave(c, time.Time{})
	case "succeed":
		return slices.Index(w.calls, w.q.Successor(c, time.Time{}))
	case "hold":
		w.q.Hold(c, time.Time{})
		overtakeFaster(c)
	}
	if runs {
		return s.call
	}
	return -1
}

// check says what is wrong with a step from one world to another.
func (x *explorer) check(from, to *world, s step, direct int) string {
	var calls, began []*Call
	for i, c := range to.calls {
		if c.state != outside {
			calls = append(calls, c)
		}
		if old := from.calls[i]; c.state == running && (old.state != running || s.what == "enter" &&
			s.call == i) {
			began = append(began, c)
			if notified := slices.Contains(x.ran, i); notified == (i == direct) {
				return fmt.Sprintf("%d runs, notified: %t, returned: %t", i, notified, i == direct)
			}
		} else if slices.Contains(x.ran, i) {
			return fmt.Sprintf("%d was notified and does not run", i)
		}
	}
	for i, c := range to.calls {
		if c.state != waiting {
			continue
		}
		old := from.calls[i]
		if all, _ := old.mayReserve(); s.what != "unreserve" && old.state == waiting && all &&
			!slices.ContainsFunc(c.keys, func(k *key) bool { return k.foreign }) {
			o := to.q.keys[old.parkedAt.name].owner
			if slices.Contains(began, o) && o.arrival > c.arrival {
				return fmt.Sprintf("%d may reserve, and a later call has its key", i)
			}
		}
		if c.onlyLater(began) {
			return fmt.Sprintf("only later calls that began to run keep %d from its keys", i)
		}
	}
	return broken(to.q, calls)
}

// onlyLater reports whether only later calls of began keep c from its keys.
func (c *Call) onlyLater(began []*Call) bool {
	for _, k := range c.keys {
		if o := k.owner; o != nil && o.arrival > c.arrival && slices.Contains(began, o) {
			continue
		}
		if !k.availableTo(c) {
			return false
		}
	}
	return true
}

// drain lets all calls end: no call gives up, and reservations end only if nothing else happens.
// It returns how many reservations ended, and false if some calls never end.
func (x *explorer) drain(w *world) (unreserved int, ok bool) {
	for {
		var best step
		for _, s := range x.steps(w) {
			switch {
			case s.what == "hold", s.what == "retry", s.what == "leave" && w.calls[s.call].granted:
				best = s
			case s.what == "unreserve" && best.what == "":
				best = s
			}
		}
		switch best.what {
		case "":
			return unreserved, !slices.ContainsFunc(w.calls, func(c *Call) bool {
				return c.state != outside
			})
		case "unreserve":
			unreserved++
		}
		x.do(w, best)
	}
}

// explore visits all worlds, and returns how many there are, and the most reservations that had to
// end before all calls ended.
func (x *explorer) explore(t *testing.T) (worlds, unreserved int) {
	start := &world{q: &Queue{}}
	for i := range x.plan.keys {
		start.calls = append(start.calls, &Call{Caller: probe{x, i}})
	}
	seen := map[string]bool{start.id(): true}
	for next := []*visit{{world: start}}; len(next) > 0; {
		v := next[0]
		next = next[1:]
		n, ok := x.drain(v.world.clone())
		if !ok {
			t.Fatalf("%v: deadlock after %v", x.plan.keys, v.path())
		}
		unreserved = max(unreserved, n)
		for _, s := range x.steps(v.world) {
			to := &visit{v.world.clone(), v, s}
			x.ran = nil
			direct := x.do(to.world, s)
			if why := x.check(v.world, to.world, s, direct); why != "" {
				t.Fatalf("%v: %s after %v", x.plan.keys, why, to.path())
			}
			if id := to.world.id(); !seen[id] {
				seen[id] = true
				next = append(next, to)
			}
		}
	}
	return len(seen), unreserved
}

// The goal: whatever happens in whatever order, from each state all calls can end, although none
// gives up. No call that could run waits. Each change lets calls run in the order of arrival, and
// notifies each of them once. A call that may reserve loses the key that it waits for to no later
// call.
func TestQueue_EveryOrderOfEvents(t *testing.T) {
	for _, p := range []plan{
		{keys: []string{"ab", "bc", "ca"}, foreign: "a"},
		{keys: []string{"ab", "ba", "a", "b"}},
		{keys: []string{"ab", "a", "b"}, foreign: "ab"},
		{keys: []string{"abc", "ab", "c"}, foreign: "c"},
		{keys: []string{"ab", "bc", "a", "c"}},
		{keys: []string{"a", "ab", "b"}, inside: map[int]int{2: 0}, foreign: "b"},
		{keys: []string{"a", "ab", "b", "bc"}, inside: map[int]int{2: 0}},
		{keys: []string{"a", "abc", "bc", "c"}, inside: map[int]int{2: 0}},
		{keys: []string{"a", "ab", "b", "ba"}, inside: map[int]int{2: 0}, foreign: "b"},
		{keys: []string{"ab", "bc", "ca", "abc"}},
	} {
		x := &explorer{plan: p}
		worlds, unreserved := x.explore(t)
		t.Logf("%v: %d states; at most %d reservations had to end", p.keys, worlds,
			unreserved)
		require.LessOrEqual(t, unreserved, len(p.inside),
			"only a holder that asks for more needs the end of a reservation, and of one only")
	}
}
