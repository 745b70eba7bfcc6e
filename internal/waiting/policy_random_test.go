package waiting

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// diary is a slow, obvious policy. It writes down all that happens, and searches that for the
// answer to each question.
type diary struct {
	maxDelay time.Duration
	arbiter  func(key string, skip int) int
	entries  []*entry
}

// entry is one thing that happened.
type entry struct {
	what  string // "look", "failure", "retry" or "turn"
	facts Facts

	why     Failure       // of a failure
	putsOff bool          // a failure: it puts off asking all nodes
	delay   time.Duration // by so much

	notBefore time.Time // a turn: when it may begin
	continues bool      // a turn: it is in the time of the process
	backedOff bool      // a look: the call waited for its turn, or backed off
	known     State     // a look at which it began to contend: of the contention
	until     time.Time // the same: when it may ask
	begins    bool      // a look: the call began to contend with other processes
	consults  bool      // a look: the call went by what the watch reported
	asked     Action    // a look: what the call did

	chose bool   // an arbiter was chosen then
	key   string // for this key
	node  int
}

// last returns the index of the last entry that is so, or -1.
func (d *diary) last(is func(e *entry) bool) int {
	for i, e := range slices.Backward(d.entries) {
		if is(e) {
			return i
		}
	}
	return -1
}

// count returns how many entries from this index on are so.
func (d *diary) count(from int, is func(e *entry) bool) (n int) {
	for _, e := range d.entries[max(from, 0):] {
		if is(e) {
			n++
		}
	}
	return n
}

func isLook(e *entry) bool    { return e.what == "look" }
func isFailure(e *entry) bool { return e.what == "failure" }
func chose(e *entry) bool     { return e.chose }
func began(e *entry) bool     { return e.begins }
func isTurn(e *entry) bool    { return e.what == "turn" }
func sawHeld(e *entry) bool {
	return e.consults && e.facts.Watch.Known && e.facts.Watch.TTL > 0
}

// choose: the arbiter is the node that all choose for the key. After each four failures since the
// key was seen to be held it is the next node. An empty key has none.
func (d *diary) choose(e *entry, key string) {
	e.chose, e.key, e.node = true, key, -1
	if key != "" {
		e.node = d.arbiter(key, d.futile()/4)
	}
}

// futile returns how many attempts failed since the key was seen to be held.
func (d *diary) futile() int { return d.count(d.last(sawHeld), isFailure) }

// pushes: what the node said last, when the call went by that.
func (d *diary) pushes() bool {
	i := d.last(func(e *entry) bool { return e.consults && e.facts.Watch.Known })
	return i >= 0 && d.entries[i].facts.Watch.Notifies
}

// present returns the arbiter of now and its key; ok is false if there is none.
func (d *diary) present() (key string, node int, ok bool) {
	i := d.last(chose)
	if i < 0 || d.entries[i].node < 0 {
		return "", -1, false
	}
	return d.entries[i].key, d.entries[i].node, true
}

// subscribed: the call has subscribed to the key on the arbiter, and whenever an arbiter was chosen
// since, it was the same for the same key, and the watch was active.
func (d *diary) subscribed() bool {
	key, node, _ := d.present()
	i := d.last(func(e *entry) bool { return e.asked.Kind == Subscribe })
	return i >= 0 && d.count(i+1, func(e *entry) bool {
		return e.chose && (e.key != key || e.node != node || !e.facts.Watch.Active)
	}) == 0 && d.entries[i].asked.Key == key && d.entries[i].asked.Node == node
}

func putsOff(e *entry) bool { return e.putsOff }

// askAllAt: the call asks all nodes when the delay after the last failure that put that off is
// over: eight times the delay if the arbiter pushes, but without a quorum once, and at least 1 ms.
// But it never waits for longer than two seconds, or the delay if that is longer, since the first
// failure after the last attempt that asked them all, or after that one itself. If the call began
// to contend since, and knew of others, it asks all when its backoff and its longest delay are
// over.
func (d *diary) askAllAt() time.Time {
	began := d.last(func(e *entry) bool { return e.begins && e.chose })
	i := d.last(putsOff)
	switch {
	case i < 0 && began < 0:
		return time.Time{}
	case i <= began:
		e := d.entries[began]
		return e.until.Add(d.maxDelay)
	}
	first := d.last(func(e *entry) bool { return putsOff(e) && e.why.AskedAll })
	if first < began { // none since then: the first of all since then counts
		first = began + slices.IndexFunc(d.entries[began+1:], putsOff) + 1
	} else if first < 0 {
		first = slices.IndexFunc(d.entries, putsOff)
	}
	at := d.entries[i].facts.Now.Add(d.entries[i].delay)
	limit := d.entries[first].facts.Now.Add(max(d.entries[first].delay, 2*time.Second))
	if limit.Before(at) {
		return limit
	}
	return at
}

// failed: a failure puts off asking all nodes, if it is of an attempt that asked them all, or if
// the arbiter pushes changes, or if there is no arbiter.
func (d *diary) failed(f Facts, why Failure, delay time.Duration) {
	e := &entry{what: "failure", facts: f, why: why, delay: delay}
	d.entries = append(d.entries, e)
	d.choose(e, why.Key)
	e.putsOff = why.AskedAll || d.pushes() || e.node < 0
	switch {
	case why.Key == "":
		e.delay = max(e.delay, time.Millisecond)
	case d.pushes():
		e.delay *= 8
	}
}

func (d *diary) next(f Facts) Action {
	if i := len(d.entries) - 1; i >= 0 && d.entries[i].what == "retry" {
		d.entries = append(d.entries, &entry{what: "retried"})
		return Action{Kind: AskAll, Retry: true}
	}
	e := &entry{what: "look", facts: f}
	e.asked = d.answer(e)
	return e.asked
}

// answer returns what the call does at a look.
func (d *diary) answer(e *entry) Action {
	now := e.facts.Now
	turn := d.last(isTurn)
	looks := d.count(turn, isLook)
	// A turn is news until the call has looked without having to wait.
	released := turn >= 0 && looks == d.count(turn, func(e *entry) bool { return e.backedOff })
	if turn >= 0 && looks == 0 || d.last(began) < 0 {
		e.begins, e.known, e.until = true, e.facts.Contention, now
		if turn >= 0 && looks == 0 && d.entries[turn].continues {
			e.known = State{}
		}
		e.until = now.Add(e.known.Backoff)
		if turn >= 0 && looks == 0 && d.entries[turn].notBefore.After(e.until) {
			e.until = d.entries[turn].notBefore
		}
	}
	d.entries = append(d.entries, e)
	if e.begins && e.known.Key != "" {
		d.choose(e, e.known.Key)
	}
	start := d.entries[d.last(began)]
	if start.until.After(now) {
		e.backedOff = true
		return Action{Kind: Wait, Delay: start.until.Sub(now)}
	}
	key, node, ok := d.present()
	all := d.askAllAt()
	ask := Action{Kind: AskArbiter, Node: node}
	if !ok || !all.After(now) {
		ask = Action{Kind: AskAll}
	}
	if released && start.known.Key == "" {
		return ask
	}
	until := all
	if ok {
		if !d.subscribed() {
			return Action{Kind: Subscribe, Key: key, Node: node}
		}
		e.consults = true
		w := e.facts.Watch
		if w.Known && w.TTL > 0 && now.Add(w.TTL).Before(all) {
			until = now.Add(w.TTL)
		}
		if (w.Known && w.TTL == 0 || !w.Known && !w.Active) && d.futile() < 12 {
			return ask
		}
	}
	if !until.After(now) {
		return Action{Kind: AskAll}
	}
	return Action{Kind: Wait, Delay: until.Sub(now)}
}

// granted: as Policy.Granted is described.
func (d *diary) granted(now time.Time) (Contended, bool) {
	i, since := d.last(chose), d.last(began)
	if !d.pushes() || i < 0 || d.entries[i].key == "" || since < 0 {
		return Contended{}, false
	}
	start := d.entries[since]
	return Contended{
		Key: d.entries[i].key, Took: now.Sub(start.facts.Now),
		Backoff: start.until.Sub(start.facts.Now),
		LostRaces: d.count(since, func(e *entry) bool {
			return isFailure(e) && e.why.Key != "" && !e.why.AskedAll && e.why.Refusals == 1
		}),
		WasFree: d.count(since, sawHeld) == 0,
	}, true
}

// randomFacts are what a call may know.
func randomFacts(random *rand.Rand, now time.Time) Facts {
	f := Facts{Now: now}
	if random.IntN(4) == 0 {
		f.Contention = State{Key: "a", Backoff: time.Duration(random.IntN(3)) * ms}
	}
	f.Watch = []Watch{{}, unknown, free, pushes, silent, {Known: true, TTL: ms, Active: true}, {
		Known: true, TTL: 2 * ms, Notifies: true, Active: true,
	}}[random.IntN(7)]
	return f
}

// The goal: whatever happens in whatever order, the policy does what the diary does.
func TestPolicy_IsTheObviousOne(t *testing.T) {
	kinds := map[Kind]int{}
	granted := 0
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		shift := 0
		arbiter := func(key string, skip int) int { return (len(key)+skip+shift)%4 - 1 }
		p := Policy{MaxDelay: 3 * ms, Arbiter: arbiter}
		d := diary{maxDelay: 3 * ms, arbiter: arbiter}
		now := at(0)
		f := randomFacts(random, now)
		for i := range 60 {
			now = now.Add([]time.Duration{0, 0, ms, ms, 2 * ms, second}[random.IntN(6)])
			if random.IntN(20) == 0 {
				shift++ // a node was connected, or lost
			}
			if f.Now = now; random.IntN(2) == 0 {
				f = randomFacts(random, now)
			}
			name := fmt.Sprintf("seed %d, event %d", seed, i)
			switch random.IntN(9) {
			case 3:
				e := &entry{what: "turn", continues: random.IntN(2) == 0}
				if e.continues {
					p.Continue()
				} else {
					e.notBefore = now.Add(time.Duration(random.IntN(5)-3) * ms)
					p.Begin(e.notBefore)
				}
				d.entries = append(d.entries, e)
			case 0, 1:
				why := Failure{
					Key:      []string{"", "a", "a", "a", "bb"}[random.IntN(5)],
					Refusals: 1 + random.IntN(2), AskedAll: random.IntN(3) == 0,
				}
				delay := time.Duration(random.IntN(4)) * ms / 2
				p.Failed(f, why, delay)
				d.failed(f, why, delay)
			case 2:
				if random.IntN(3) == 0 {
					p.Retry()
					d.entries = append(d.entries, &entry{what: "retry"})
					require.Equal(t, d.next(f), p.Next(f), name)
				}
			default:
				want := d.next(f)
				require.Equal(t, want, p.Next(f), name)
				kinds[want.Kind]++
			}
			want, ok := d.granted(now)
			got, gotOK := p.Granted(now)
			require.Equal(t, ok, gotOK, name)
			require.Equal(t, want, got, name)
			if ok {
				granted++
			}
		}
	}
	t.Log(kinds, granted)
	for _, kind := range []Kind{Wait, Subscribe, AskArbiter, AskAll} {
		require.Greater(t, kinds[kind], 1000)
	}
	require.Greater(t, granted, 1000)
}
