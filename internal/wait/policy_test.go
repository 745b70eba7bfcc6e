package wait

import (
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/line"
	"github.com/stretchr/testify/require"
)

const (
	ms     = time.Millisecond
	second = time.Second
)

// nodes differ from each other, also for require.Equal.
var nodes = func() (all [5]*line.Node) {
	for i := range all {
		all[i] = line.NewNode(nil, nil, "", "", 0)
	}
	return all
}()

func at(d time.Duration) time.Time { return time.Unix(1000, 0).Add(d) }

// What an arbiter says of the line.
var (
	inTheLine = line.Place{Known: true, Ticket: 9, Before: 7, Ahead: 2}
	hasLeft   = line.Place{Known: true, Ticket: 9, Before: 7, Ahead: 2, Turn: true}
	firstFree = line.Place{Known: true, Ticket: 9, Free: true, Turn: true}
	firstHeld = line.Place{Known: true, Ticket: 9, Until: at(10 * second)}
	firstGone = line.Place{Known: true, Ticket: 9, Until: at(10 * second), Turn: true}
	full      = line.Place{Known: true}
	noAnswer  = line.Place{}
	asked     = line.Place{Ahead: -1} // the answer is to come
)

// silent is a place at an arbiter that reports no changes.
func silent(l line.Place) line.Place {
	l.Silent = true
	return l
}

// refused returns the policy of a call whose first attempt was refused because of "k".
func refused() *Policy {
	p := &Policy{
		Key: "k", MaxDelay: 60 * ms,
		Arbiter: func(key string, skip int) *line.Node { return nodes[(len(key)+skip)%3] },
	}
	p.Next(Facts{Now: at(0)})
	p.Failed(at(0), "k", 20*ms)
	return p
}

// step is a look at a time, and what the call does then.
type step struct {
	facts Facts
	want  Action
}

func look(d time.Duration, l line.Place, want Action) step {
	return step{Facts{Now: at(d), Place: l, Asking: l == asked}, want}
}

var (
	asks     = Action{Kind: AskLine, Key: "k", Node: nodes[1]}
	attempts = Action{Kind: Attempt}
)

func waits(d time.Duration) Action { return Action{Kind: Wait, Delay: d} }

// The goal: each rule of a call whose first attempt was refused.
func TestPolicy_Rules(t *testing.T) {
	for name, steps := range map[string][]step{
		"the first one waits for the key, and asks when it is gone": {
			look(0, asked, asks),
			look(0, asked, waits(160*ms)),
			look(1*ms, firstHeld, waits(159*ms)),
			look(2*ms, firstHeld, waits(158*ms)),
			look(9*ms, firstGone, attempts),
		},
		"the first one asks at once for a key that is free": {
			look(0, asked, asks),
			look(1*ms, firstFree, attempts),
		},
		"the first one makes an attempt now and then: only the arbiter may have the key": {
			look(0, asked, asks),
			look(1*ms, firstHeld, waits(159*ms)),
			look(160*ms, firstHeld, attempts),
		},
		"the key's time runs out": {
			look(0, asked, asks),
			look(2*ms, line.Place{Known: true, Ticket: 9, Until: at(7 * ms)}, waits(5*ms)),
			look(7*ms, line.Place{Known: true, Ticket: 9, Until: at(7 * ms)}, attempts),
		},
		"another one waits for the ticket before it, and asks when that has left": {
			look(0, asked, asks),
			look(1*ms, inTheLine, waits(160*ms)),
			look(2*ms, inTheLine, waits(159*ms)),
			look(9*ms, hasLeft, attempts),
		},
		"another one makes no attempt, and asks again for its place": {
			look(0, asked, asks),
			look(1*ms, inTheLine, waits(160*ms)),
			look(160*ms, inTheLine, waits(1*ms)),
			look(161*ms, inTheLine, asks),
			look(161*ms, asked, waits(160*ms)),
			look(162*ms, inTheLine, waits(320*ms)), // and half as often
		},
		"without pushes it asks again after the delay, once for each client until its turn": {
			look(0, asked, asks),
			look(1*ms, inTheLine, waits(160*ms)),
			look(2*ms, silent(inTheLine), waits(59*ms)),
			look(61*ms, silent(inTheLine), asks),
		},
		"nor does the first one wait longer without pushes": {
			look(0, asked, asks),
			look(1*ms, firstHeld, waits(159*ms)),
			look(2*ms, silent(firstHeld), waits(19*ms)),
			look(21*ms, silent(firstHeld), asks),
		},
		"a full line": {
			look(0, asked, asks),
			look(1*ms, full, waits(60*ms)),
			look(30*ms, full, waits(31*ms)),
			look(61*ms, full, asks),
		},
		"an arbiter that does not answer": {
			look(0, asked, asks),
			look(159*ms, asked, waits(1*ms)),
			look(160*ms, asked, attempts),
		},
		"an arbiter that can't be asked": {
			look(0, asked, asks),
			look(1*ms, noAnswer, waits(19*ms)),
			look(20*ms, noAnswer, attempts),
		},
	} {
		p := refused()
		for i, s := range steps {
			require.Equal(t, s.want, p.Next(s.facts), "%s, %d", name, i)
		}
	}
}

// The goal: if an arbiter says again and again at once that it is the call's turn, and the attempt
// fails, the call asks another arbiter after some attempts, and then not without a pause. So it is
// if the arbiter does not have a key that other nodes have, and also if it has the key.
func TestPolicy_AnotherArbiterAfterFutileAttempts(t *testing.T) {
	for _, turn := range []line.Place{firstFree, firstGone, hasLeft} {
		p := refused()
		asked := map[*line.Node]int{}
		for i := range 2 * maxFutileTries {
			f := Facts{Now: at(time.Duration(i) * ms), Own: "own", Asking: true}
			todo := p.Next(f)
			require.Equal(t, AskLine, todo.Kind)
			asked[todo.Node]++
			f.Asking, f.Place = false, turn
			todo = p.Next(f)
			if i < maxFutileTries-1 {
				require.Equal(t, Attempt, todo.Kind, i)
			} else {
				require.Equal(t, waits(19*ms), todo, i)
				f.Now = f.Now.Add(20 * ms)
				require.Equal(t, Attempt, p.Next(f).Kind, i)
			}
			p.Failed(at(time.Duration(i)*ms), "k", 20*ms)
		}
		require.Len(t, asked, 3)
	}
}

// The goal: a turn that begins in the process asks at once, unless others are known to want a key
// and may be before it, or are to have their turn in any case. In the process's own time it asks at
// once.
func TestPolicy_ATurnBegins(t *testing.T) {
	for _, test := range []struct {
		begin     func(*Policy)
		contended string
		place     line.Place
		want      Action
	}{
		{func(p *Policy) { p.Begin(false, false) }, "", noAnswer, attempts},
		{func(p *Policy) { p.Begin(false, false) }, "k", noAnswer, asks},
		{func(p *Policy) { p.Begin(false, false) }, "k", inTheLine, asks},
		{func(p *Policy) { p.Begin(false, false) }, "k", firstHeld, attempts},
		{func(p *Policy) { p.Begin(true, true) }, "", firstHeld, asks},
		{func(p *Policy) { p.Begin(true, false) }, "k", inTheLine, attempts},
	} {
		p := refused()
		require.Equal(t, asks, p.Next(Facts{Now: at(0), Asking: true}))
		test.begin(p)
		f := Facts{Now: at(ms), Contended: test.contended, Place: test.place, Asking: true}
		require.Equal(t, test.want, p.Next(f))
	}
}

// The goal: a call that goes by the line from the first makes an attempt at once if the arbiter
// can't be asked.
func TestPolicy_WithoutAnArbiterTheFirstAttemptIsAtOnce(t *testing.T) {
	p := refused()
	p.Begin(true, true)
	require.Equal(t, asks, p.Next(Facts{Now: at(0), Asking: true}))
	require.Equal(t, waits(480*ms), p.Next(Facts{Now: at(0), Asking: true}))
	require.Equal(t, attempts, p.Next(Facts{Now: at(1 * ms), Place: noAnswer}))
}

// The goal: without a quorum no line is of use.
func TestPolicy_WithoutAQuorum(t *testing.T) {
	p := refused()
	p.Failed(at(0), "", 0)
	require.Equal(t, waits(ms), p.Next(Facts{Now: at(0)}))
	require.Equal(t, attempts, p.Next(Facts{Now: at(ms)}))
}
