package keyqueue

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pair is a queue and its model, which see the same operations.
type pair struct {
	t     *testing.T
	r     *rand.Rand
	queue Queue
	model *model
	all   []*guest

	ran, reserved []*guest // who was notified by the queue since the last check
}

// Notify notes who is notified.
func (g *guest) Notify(n News) {
	p := g.pair
	if p == nil {
		p = new(pair)
	}
	switch n {
	case Turn:
		g.runs++
		p.ran = append(p.ran, g)
	case Reserving:
		g.reservations++
		p.reserved = append(p.reserved, g)
	case Released:
		g.released++
	}
}

// change does something to the queue and to the model, and compares the news of the callers.
// direct says whose Run a change returned.
func (p *pair) change(queue, model func() (direct *guest)) {
	p.ran, p.reserved, p.model.ran, p.model.reserved = nil, nil, nil, nil
	direct := queue()
	require.Equal(p.t, model(), direct)
	ran := slices.DeleteFunc(slices.Clone(p.model.ran), func(g *guest) bool { return g == direct })
	require.Equal(p.t, names(ran), names(p.ran), "run")
	require.Equal(p.t, names(p.model.reserved), names(p.reserved), "reserve")
}

func names(all []*guest) (s string) {
	for _, g := range all {
		s += g.name
	}
	return s
}

func (p *pair) enter(g *guest) {
	g.keys = someKeys(p.r, 5)
	p.change(func() *guest {
		runs, ok := p.queue.Enter(&g.Call, g.keys, unlimited)
		require.True(p.t, ok)
		return only(runs, g)
	}, func() *guest { return only(p.model.enter(g), g) })
}

func only(runs bool, g *guest) *guest {
	if runs {
		return g
	}
	return nil
}

// none adapts a change without a result.
func none(do func()) func() *guest {
	return func() *guest {
		do()
		return nil
	}
}

// step does one random operation that the contract allows.
func (p *pair) step(g *guest) {
	now := at(p.r.IntN(9) + 1)
	c := p.model.find(g)
	leave := func() {
		p.change(none(func() { p.queue.Leave(&g.Call, now) }),
			none(func() { p.model.leave(g, now) }))
	}
	switch n := p.r.IntN(20); {
	case c == nil && n > 0:
		p.enter(g)
	case c == nil, n == 0:
		p.giveUp(g)
	case n == 1:
		leave()
	case n == 2:
		p.change(func() *guest { return only(p.queue.Retry(&g.Call), g) },
			func() *guest { return only(p.model.retry(g), g) })
	case n == 3, n == 4, c.state == waiting:
		if n == 3 || n == 4 {
			var ended, want []string
			p.change(none(func() { ended = p.queue.Unreserve(&g.Call) }),
				none(func() { want = p.model.unreserve(g) }))
			require.Equal(p.t, want, ended)
		}
	case c.state == contending:
		p.change(func() *guest { return only(p.queue.Retry(&g.Call), g) },
			func() *guest { return only(p.model.retry(g), g) })
	case c.holds && n < 6:
		p.queue.Hold(&g.Call, now)
		p.model.hold(g, now)
	case c.holds && n < 8:
		p.queue.Yield(&g.Call, now)
		for _, k := range g.keys {
			p.model.passed[k] = passing{now, uint64(p.model.arrivals), true}
		}
	case c.holds && n < 14:
		p.succeed(g, now)
	case c.holds:
		leave()
	case n < 8:
		key := g.keys[p.r.IntN(len(g.keys))]
		again := p.r.IntN(4) == 0
		p.change(none(func() { p.queue.Contend(&g.Call, key, again) }),
			none(func() { p.model.contend(g, key, again) }))
		refuseFaster(&g.Call)
	default:
		p.queue.Hold(&g.Call, now)
		if !c.holds {
			overtakeFaster(&g.Call)
		}
		p.model.hold(g, now)
	}
}

func (p *pair) giveUp(g *guest) {
	p.change(func() *guest { return only(p.queue.GiveUp(&g.Call), g) },
		func() *guest { return only(p.model.giveUp(g), g) })
}

func (p *pair) succeed(g *guest, now time.Time) {
	want := p.model.successor(g, now)
	next := p.queue.Successor(&g.Call, now)
	if want == nil {
		require.Nil(p.t, next)
		return
	}
	require.Same(p.t, &want.Call, next)
}

// check compares all that the queue and the model say.
func (p *pair) check() {
	var calls []*Call
	waits := 0
	for _, g := range p.all {
		c := p.model.find(g)
		if c == nil {
			require.Equal(p.t, Call{Caller: g}, g.Call, g.name)
			continue
		}
		calls = append(calls, &g.Call)
		if !c.holds {
			waits++
		}
		parkedAt := ""
		if g.parkedAt != nil {
			parkedAt = g.parkedAt.name
		}
		require.Equal(p.t, c.state, g.state, g.name)
		require.Equal(p.t, c.holds, g.granted, g.name)
		require.Equal(p.t, c.waitsFor, parkedAt, g.name)
		require.Equal(p.t, p.model.heldUntil(g), p.queue.HeldUntil(&g.Call), g.name)
		if c.state == running {
			since, served, yields := p.queue.Passing(&g.Call)
			require.Equal(p.t, p.model.passing(g), since, g.name)
			require.Equal(p.t, p.model.served(g), served, g.name)
			require.Equal(p.t, p.model.yields(g), yields, g.name)
		}
		for i, k := range g.keys {
			require.Equal(p.t, c.reserves[k], g.Call.keys[i].reserver == &g.Call, g.name+k)
			require.Equal(p.t, c.contends == k, g.Call.keys[i].contender == &g.Call, g.name+k)
			if !c.holds {
				known := g.Call.keys[i]
				require.Equal(p.t, min(c.overtaken[k], maxOvertaken),
					known.overtakenCount(g.arrival))
			}
		}
	}
	require.Equal(p.t, waits, p.queue.Waiting())
	p.checkKeys()
	require.Empty(p.t, broken(&p.queue, calls))
}

func (p *pair) checkKeys() {
	for _, k := range keys("abcdef") {
		known, waiters := false, false
		var contender *Call
		for _, c := range p.model.calls {
			known = known || c.wants(k)
			waiters = waiters || c.wants(k) && c.state != running
			if c.contends == k && len(c.guest.keys) == 1 {
				contender = &c.guest.Call
			}
		}
		require.Equal(p.t, known, p.queue.Knows([]string{k}), k)
		require.Equal(p.t, waiters, p.queue.HasWaiters(k), k)
		require.Same(p.t, contender, p.queue.Contender([]string{k}), k)
		require.Equal(p.t, p.model.uses(k), p.queue.Uses(k), k)
	}
}

// someKeys returns one to three of so many, in no order.
func someKeys(r *rand.Rand, of int) []string {
	list := keys("abcdef")[:of]
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:1+r.IntN(3)]
}

// The goal: after any sequence of operations the queue is as a model that looks at all calls, and
// notifies the same callers in the same order.
func TestQueue_AgainstAModel(t *testing.T) {
	for seed := range uint64(10) {
		p := &pair{t: t, r: rand.New(rand.NewPCG(seed, 0))}
		p.model = &model{passed: make(map[string]passing), foreign: make(map[string]bool)}
		for i := range 10 {
			g := &guest{name: string(rune('A' + i)), pair: p}
			g.Caller = g
			p.all = append(p.all, g)
		}
		for step := range 1000 {
			p.step(p.all[p.r.IntN(len(p.all))])
			p.check()
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	}
}
