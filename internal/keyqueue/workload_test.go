package keyqueue

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// workload is callers that use a Queue in virtual time, as the engine does: a step is about a
// millisecond.
type workload struct {
	queue  Queue
	events []event
	order  int // of events at the same time
	now    int
	random *rand.Rand
	ended  int // reservations that ended unused
}

// event is something that a caller does at a time.
type event struct {
	at, order int
	do        func()
}

func (w *workload) Len() int { return len(w.events) }

func (w *workload) Less(i, j int) bool {
	a, b := w.events[i], w.events[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (w *workload) Swap(i, j int) { w.events[i], w.events[j] = w.events[j], w.events[i] }

func (w *workload) Push(x any) { w.events = append(w.events, x.(event)) }

func (w *workload) Pop() any {
	last := w.events[len(w.events)-1]
	w.events = w.events[:len(w.events)-1]
	return last
}

// after does something so many steps from now.
func (w *workload) after(steps int, do func()) {
	w.order++
	heap.Push(w, event{w.now + steps, w.order, do})
}

// worker is a caller in a workload: it waits for keys, holds them, and begins again.
type worker struct {
	Call
	w     *workload
	keys  func() []string
	hold  func() int // for how many steps it holds them
	think func() int // how many steps it waits before it begins again
	// The number of reservations of this call that ended unused.
	unused  int
	running bool
	entered int

	rounds  int
	waits   []int
	longest int
}

func (g *worker) begin() {
	g.entered, g.unused, g.running = g.w.now, 0, false
	if runs, _ := g.w.queue.Enter(&g.Call, g.keys(), unlimited); runs {
		g.Run()
	}
}

// Run asks the nodes, which takes a step.
func (g *worker) Run() {
	g.running = true
	g.w.after(1, func() {
		g.w.queue.Hold(&g.Call, time.Time{})
		wait := g.w.now - g.entered
		g.rounds++
		g.waits = append(g.waits, wait)
		g.longest = max(g.longest, wait)
		g.w.after(g.hold(), func() {
			g.w.queue.Leave(&g.Call, time.Time{})
			g.w.after(g.think(), g.begin)
		})
	})
}

func (g *worker) Notify(n News) {
	switch n {
	case Turn:
		g.Run()
	case Reserving:
		g.reserve()
	}
}

func (g *worker) reserve() {
	entered := g.entered
	g.w.after(min(10<<min(g.unused, 7), 1000), func() {
		if g.entered == entered && !g.running {
			g.unused++
			g.w.ended++
			g.w.queue.Unreserve(&g.Call)
		}
	})
}

// add adds so many workers, which start one after the other.
func (w *workload) add(n int, keys func() []string, hold, think func() int) (all []*worker) {
	for range n {
		g := &worker{w: w, keys: keys, hold: hold, think: think}
		g.Caller = g
		all = append(all, g)
		w.after(w.random.IntN(10), g.begin)
	}
	return all
}

// run runs so many steps.
func (w *workload) run(t *testing.T, steps int) {
	t.Helper()
	for w.now < steps {
		require.NotEmpty(t, w.events)
		e := heap.Pop(w).(event)
		w.now = e.at
		e.do()
	}
}

func newWorkload() *workload { return &workload{random: rand.New(rand.NewPCG(1, 2))} }

// steps returns between least and most at random.
func (w *workload) steps(least, most int) func() int {
	return func() int { return least + w.random.IntN(most-least+1) }
}

// some returns n different keys of so many.
func (w *workload) some(n, of int, name string) (list []string) {
	for len(list) < n {
		if k := name + strconv.Itoa(w.random.IntN(of)); !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	return list
}

// fixed returns always these keys.
func fixed(keys ...string) func() []string { return func() []string { return keys } }

// spread returns the rounds of the least worker as a part of the mean, and the mean.
func spread(all []*worker) (least, mean float64) {
	sum, lowest := 0, math.MaxInt
	for _, g := range all {
		sum += g.rounds
		lowest = min(lowest, g.rounds)
	}
	mean = float64(sum) / float64(len(all))
	return float64(lowest) / mean, mean
}

// percentile returns the wait that this part of the waits of all is below.
func percentile(all []*worker, part float64) int {
	var waits []int
	for _, g := range all {
		waits = append(waits, g.waits...)
	}
	slices.Sort(waits)
	if len(waits) == 0 {
		return math.MaxInt
	}
	return waits[int(part*float64(len(waits)-1))]
}

func longest(all []*worker) (steps int) {
	for _, g := range all {
		steps = max(steps, g.longest)
	}
	return steps
}

func average(all []*worker) float64 {
	_, mean := spread(all)
	return mean
}

// The goal: callers that want a hot key and some cold ones take turns, and keep the hot key busy.
func TestQueue_WorkloadOfOneHotKey(t *testing.T) {
	const hold = 10
	w := newWorkload()
	all := w.add(64, func() []string { return append(w.some(2, 10_000, "c"), "hot") },
		w.steps(hold/2, hold*3/2), w.steps(0, 1))
	w.run(t, 64*50*hold)
	least, mean := spread(all)
	ideal := 50.0 * hold / (hold + 1)
	require.GreaterOrEqual(t, least, 0.9, "the caller with the least rounds, as a part of the mean")
	require.GreaterOrEqual(t, mean, 0.97*ideal, "the hot key is idle")
	t.Logf("least/mean %.2f, rounds %.1f of %.1f, waits: %d in the middle, %d longest", least, mean,
		ideal, percentile(all, 0.5), longest(all))
}

// The goal: a crowd that waits for a hot key does not keep others from the cold keys.
func TestQueue_WorkloadOfColdCallersBesideAHotKey(t *testing.T) {
	const hold = 20
	w := newWorkload()
	hot := w.add(128, func() []string { return append(w.some(2, 500, "c"), "hot") },
		w.steps(hold/2, hold*3/2), w.steps(0, 1))
	cold := w.add(4, func() []string { return w.some(3, 500, "c") },
		w.steps(hold/2, hold*3/2), w.steps(0, 1))
	w.run(t, 128*20*hold)
	least, mean := spread(hot)
	require.GreaterOrEqual(t, least, 0.8)
	require.GreaterOrEqual(t, mean, 0.95*20*hold/(hold+1))
	require.LessOrEqual(t, percentile(cold, 0.5), 1)
	require.LessOrEqual(t, percentile(cold, 0.99), 2*hold)
	require.LessOrEqual(t, longest(cold), 6*hold)
	t.Logf("hot: least/mean %.2f; waits of cold callers: %d in the middle, %d of 99%%, %d longest",
		least, percentile(cold, 0.5), percentile(cold, 0.99), longest(cold))
}

// The goal: who wants {a,b} among streams of callers of a and of b gets them, about as often as the
// others of the key that is held longer.
func TestQueue_WorkloadOfASetAmongStreams(t *testing.T) {
	for _, test := range []struct{ sets, a, b int }{
		{1, 4, 4},
		{8, 4, 4},
		{1, 4, 200},
		{1, 200, 200},
		{8, 200, 200},
		{1, 2000, 200},
		{1, 2000, 4},
	} {
		w := newWorkload()
		sets := w.add(test.sets, fixed("a", "b"), w.steps(test.a/2, test.a*3/2), w.steps(0, 1))
		as := w.add(8, fixed("a"), w.steps(test.a/2, test.a*3/2), w.steps(0, 1))
		bs := w.add(8, fixed("b"), w.steps(test.b/2, test.b*3/2), w.steps(0, 1))
		slow := max(test.a, test.b)
		w.run(t, 500*slow)
		part := average(sets) / min(average(as), average(bs))
		require.GreaterOrEqual(t, part, 0.7, "%+v", test)
		require.LessOrEqual(t, longest(sets), 2*(8+test.sets)*slow, "%+v", test)
		t.Logf("%+v: rounds %.0f of a set, %.0f of a, %.0f of b; longest wait of a set %d", test,
			average(sets), average(as), average(bs), longest(sets))
	}
}

// The goal: a set whose keys are passed on all the time gets them, although an earlier call for one
// of them waits very long for another key.
func TestQueue_WorkloadOfASetBehindABlockedOne(t *testing.T) {
	w := newWorkload()
	w.add(2, fixed("z"), w.steps(5000, 5000), w.steps(0, 1))
	w.add(2, fixed("a", "z"), w.steps(20, 20), w.steps(0, 1))
	set := w.add(1, fixed("a", "b"), w.steps(20, 20), w.steps(0, 1))
	as := w.add(4, fixed("a"), w.steps(10, 30), w.steps(0, 1))
	bs := w.add(4, fixed("b"), w.steps(100, 300), w.steps(0, 1))
	w.run(t, 100_000)
	require.GreaterOrEqual(t, average(set), 0.8*average(bs))
	require.LessOrEqual(t, longest(set), 8*200)
	t.Logf("rounds: %.0f of the set, %.0f of a, %.0f of b; longest wait of the set %d",
		average(set), average(as), average(bs), longest(set))
}

// The goal: sets that overlap at random take turns.
func TestQueue_WorkloadOfRandomSets(t *testing.T) {
	w := newWorkload()
	all := w.add(64, func() []string { return w.some(1+w.random.IntN(4), 12, "k") },
		w.steps(5, 15), w.steps(0, 1))
	w.run(t, 50_000)
	least, mean := spread(all)
	require.GreaterOrEqual(t, least, 0.8)
	t.Logf("least/mean %.2f, rounds %.0f, waits: %d in the middle, %d of 99%%, %d longest", least,
		mean, percentile(all, 0.5), percentile(all, 0.99), longest(all))
}
