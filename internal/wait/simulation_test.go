package wait

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/line"
	"github.com/stretchr/testify/require"
)

// world is one key, its arbiter, and the processes that want it, in virtual time. The arbiter's
// vote decides. script.Line and script.Leave say what it does with the line.
type world struct {
	random    *rand.Rand
	now       time.Duration
	happening happenings
	scheduled int

	oneWay, hold time.Duration // of a message, and of a turn; each takes up to half more or less
	lostPushes   float64       // the part of pushes that is lost

	processes []*process
	holder    *process // nil: the key is free
	keyEnds   time.Duration
	inLine    []*place // in the order of tickets
	tickets   int64
	left      map[int64]bool // tickets that have left, and were followed
	idle      time.Duration  // for how long the key was free while somebody waited
	freeSince time.Duration
	grants    int
}

// place is a process in the line.
type place struct {
	ticket int64
	of     *process
	ends   time.Duration
}

// process is one that takes turns all the time, until it dies.
type process struct {
	w      *world
	dead   bool
	policy *Policy
	facts  Facts
	ticket int64
	tracks string // what the arbiter tells it of; empty: nothing
	wakes  int    // of timers: an older one is void
	begun  time.Duration

	turns, overtaken int
	longest          time.Duration // wait
	overtakenMost    int
}

type happening struct {
	at     time.Duration
	number int // the order of those at the same time
	do     func()
}

type happenings []happening

func (h happenings) Len() int      { return len(h) }
func (h happenings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h happenings) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].number < h[j].number
}
func (h *happenings) Push(x any) { *h = append(*h, x.(happening)) }
func (h *happenings) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (w *world) after(d time.Duration, do func()) {
	w.scheduled++
	heap.Push(&w.happening, happening{w.now + d, w.scheduled, do})
}

// about does something when d, more or less, is over.
func (w *world) about(d time.Duration, do func()) {
	w.after(d/2+time.Duration(w.random.Int64N(int64(d))), do)
}

// send delivers a message to the arbiter, behind those that were sent before.
func (w *world) send(do func()) { w.after(w.oneWay, do) }

// reply delivers one to a process.
func (w *world) reply(p *process, do func()) {
	w.after(w.oneWay, func() {
		if do(); !p.dead {
			p.act()
		}
	})
}

func (w *world) run(until time.Duration) {
	for w.now < until {
		next := heap.Pop(&w.happening).(happening)
		w.now = next.at
		next.do()
	}
}

// tell pushes to those that track a name, once.
func (w *world) tell(name string) {
	for _, p := range w.processes {
		if p.tracks != name {
			continue
		}
		p.tracks = ""
		if w.random.Float64() >= w.lostPushes {
			w.reply(p, func() { p.facts.Place.Turn = true })
		}
	}
}

// free lets the key be free.
func (w *world) free() {
	w.holder, w.freeSince = nil, w.now
	w.tell("k")
}

func (w *world) expire() {
	if w.holder != nil && w.now >= w.keyEnds {
		w.free()
	}
}

// lease is how long a key lasts whose holder has died.
const lease = 500 * time.Millisecond

// grace is for how long the place of a process lasts whose turn it is.
const grace = 50 * time.Millisecond

// ask is script.Line.
func (w *world) ask(p *process) (l line.Place) {
	w.expire()
	i := slices.IndexFunc(w.inLine, func(at *place) bool { return at.ticket == p.ticket })
	if i < 0 {
		w.tickets++
		p.ticket, i = w.tickets, len(w.inLine)
		w.inLine = append(w.inLine, &place{ticket: w.tickets, of: p})
	}
	w.inLine[i].ends = w.now + 3*time.Second
	for w.inLine[0].ends <= w.now {
		w.inLine, i = w.inLine[1:], i-1
	}
	if w.holder == nil && i > 0 {
		w.inLine[0].ends = min(w.inLine[0].ends, w.now+grace)
	}
	for i > 0 && w.inLine[i-1].ends <= w.now {
		i--
		w.inLine = slices.Delete(w.inLine, i, i+1)
	}
	l = line.Place{Known: true, Ticket: p.ticket, Ahead: i, Free: w.holder == nil}
	if i > 0 {
		l.Before = w.inLine[i-1].ticket
	}
	l.Turn = i == 0 && l.Free
	return l
}

// leave is script.Leave.
func (w *world) leave(ticket int64) {
	i := slices.IndexFunc(w.inLine, func(at *place) bool { return at.ticket >= ticket })
	if i >= 0 && w.inLine[i].ticket == ticket {
		w.inLine = slices.Delete(w.inLine, i, i+1)
	}
	if i >= 0 && i < len(w.inLine) {
		w.left[ticket] = true
		w.tell(fmt.Sprint(ticket))
		if i == 0 {
			w.inLine[0].ends = min(w.inLine[0].ends, w.now+grace)
		}
	}
}

// watch has the arbiter tell a process of its turn, and sets what it says of that now.
func (w *world) watch(p *process, l line.Place) {
	w.expire()
	if p.tracks = "k"; l.Before != 0 {
		p.tracks = fmt.Sprint(l.Before)
	}
	ends := w.keyEnds - w.now
	turn := l.Before == 0 && w.holder == nil || w.left[l.Before]
	w.reply(p, func() {
		if p.facts.Place.Turn = p.facts.Place.Turn || turn; l.Before == 0 && !turn {
			p.facts.Place.Until = at(w.now + ends)
		}
	})
}

// attempt has the nodes asked for the key.
func (w *world) attempt(p *process) (granted bool) {
	w.expire()
	if w.holder != nil {
		return false
	}
	w.holder, w.keyEnds = p, w.now+lease
	w.idle += w.now - w.freeSince
	for _, at := range w.inLine {
		if at.of == p {
			break
		}
		if at.ends > w.now && !at.of.dead {
			at.of.overtaken++
		}
	}
	p.overtakenMost, p.overtaken = max(p.overtakenMost, p.overtaken), 0
	return true
}

// begin begins to wait for a turn.
func (p *process) begin() {
	p.begun = p.w.now
	p.policy = &Policy{
		Key: "k", MaxDelay: 60 * ms, Arbiter: func(string, int) *line.Node { return nodes[0] },
	}
	p.facts.Contended, p.facts.Place = "k", line.Place{} // it has left the line
	p.policy.Begin(false, false)
	p.act()
}

// act does what the policy wants.
func (p *process) act() {
	if p.policy == nil || p.dead {
		return
	}
	w := p.w
	p.facts.Now = at(w.now)
	switch todo := p.policy.Next(p.facts); todo.Kind {
	case Wait:
		p.wakes++
		wake := p.wakes
		w.after(todo.Delay, func() {
			if p.wakes == wake {
				p.act()
			}
		})
	case AskLine:
		p.facts.Asking = true
		w.send(func() {
			l := w.ask(p)
			w.reply(p, func() {
				p.facts.Place, p.facts.Asking = l, false
				if !l.Turn { // as line.Places does
					w.send(func() { w.watch(p, l) })
				}
			})
		})
		p.act()
	case Attempt:
		policy := p.policy
		p.policy = nil
		w.send(func() {
			granted := w.attempt(p)
			w.reply(p, func() { p.answered(policy, granted) })
		})
	}
}

// answered takes the answer to an attempt. A process that got the key ends its turn after a while.
func (p *process) answered(policy *Policy, granted bool) {
	w := p.w
	if !granted {
		p.policy = policy
		policy.Failed(at(w.now), "k", 10*ms+time.Duration(w.random.Int64N(int64(50*ms))))
		return
	}
	p.turns++
	w.grants++
	p.longest = max(p.longest, w.now-p.begun)
	w.about(w.hold, func() {
		if p.dead {
			return
		}
		ticket := p.ticket
		p.ticket = 0
		w.send(func() {
			if w.holder == p {
				w.free()
			}
		})
		w.send(func() { w.leave(ticket) })
		p.begin()
	})
}

// runs lets n processes take turns for a time. die is how many of them die, one after the other.
func runs(seed uint64, n int, oneWay, hold, d time.Duration, lostPushes float64, die int) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, 0)), oneWay: oneWay, hold: hold, lostPushes: lostPushes,
		left: map[int64]bool{},
	}
	for range n {
		p := &process{w: w}
		w.processes = append(w.processes, p)
		w.about(10*ms, p.begin)
	}
	for i := range die {
		w.about(d/2, func() { w.processes[i].dead = true })
	}
	w.run(d)
	return w
}

// living returns the processes that have not died.
func (w *world) living() []*process {
	return slices.DeleteFunc(slices.Clone(w.processes), func(p *process) bool { return p.dead })
}

// The goal: at each distance and for each time of a turn, processes get turns in the order of their
// arrival at the arbiter, and so equal shares, and the key waits for a push and an attempt only.
func TestLine_ProcessesShareAKeyInOrder(t *testing.T) {
	for _, n := range []int{2, 16} {
		for _, oneWay := range []time.Duration{100 * time.Microsecond, ms, 6 * ms} {
			for _, hold := range []time.Duration{10 * time.Microsecond, ms, 20 * ms} {
				name := fmt.Sprintf("%d processes, %v, %v", n, oneWay, hold)
				w := runs(1, n, oneWay, hold, 2*second+800*(oneWay+hold), 0, 0)
				mean := w.grants / n
				for _, p := range w.processes {
					require.InDelta(t, mean, p.turns, 3+float64(mean)/50, name)
					require.Zero(t, p.overtakenMost, name)
				}
				perTurn := w.idle / time.Duration(w.grants)
				require.Less(t, perTurn, 2*oneWay+oneWay/10, "%s: the key is free for too long", name)
			}
		}
	}
}

// The goal: processes that die while they wait or hold, and pushes that are lost, cost others a
// moment, and starve nobody.
func TestLine_NobodyStarves(t *testing.T) {
	for seed := range uint64(25) {
		w := runs(seed, 16, ms, ms, 20*second, 0.02, 6)
		const patience = 3*lease + 2*second // three of them may die as holders one after the other
		for i, p := range w.living() {
			name := fmt.Sprintf("seed %d, process %d", seed, i)
			require.Less(t, p.longest, patience, name)
			require.Less(t, w.now-p.begun, patience, name)
			require.Greater(t, p.turns, w.grants/len(w.processes)/2, name)
		}
	}
}
