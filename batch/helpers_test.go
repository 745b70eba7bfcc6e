package batch

import (
	"bytes"
	"context"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// op is an operation of a test.
type op struct {
	id, weight int
	followUp   bool
}

type (
	round = Round[op, int]
	place struct {
		Round *round
		op    *op
	}
)

// trip is one trip of a reader. It is under way until the test ends it.
type trip struct {
	*Trip[op, int]
	index  int     // of all trips
	rounds [][]int // operations
	sent   bool
	gate   chan struct{} // closed when it is sent
}

// fixture has a log, and readers that do what the test says. Each of its methods returns when the
// log has come to rest.
type fixture struct {
	*testing.T
	cfg Config[op, int]
	log *Log[op, int]
	// over is closed at the end of the test: then no trip waits for it.
	over chan struct{}

	mu       sync.Mutex // guards all below
	made     int
	underWay [][]*trip // by reader, the oldest first
	read     [][][]int // by reader: the operations of each round
	missed   [][][]int // the same
	opened   int
	emptied  int
	sealed   [][]int
}

// newFixture returns a fixture in whose log each operation weighs 1, a round and a trip at most 10,
// and a reader makes one trip at a time.
func newFixture(t *testing.T, readers int, change func(*Config[op, int])) *fixture {
	t.Helper()
	f := &fixture{
		T: t, underWay: make([][]*trip, readers), read: make([][][]int, readers),
		missed: make([][][]int, readers), over: make(chan struct{}),
	}
	t.Cleanup(func() { close(f.over) })
	f.cfg = Config[op, int]{
		Readers: readers, Quorum: readers/2 + 1,
		Weight:   func(o *op) int { return o.weight },
		FollowUp: func(o *op) bool { return o.followUp },
		Open:     f.open, Emptied: f.empty, Seal: f.seal, Read: f.readTrip, Missed: f.miss,
		MaxWeight: 10, Window: 1, OverlapAt: func(int) int { return 1 }, Limit: 1000,
	}
	if change != nil {
		change(&f.cfg)
	}
	f.log = New(f.cfg)
	t.Cleanup(func() { // its sleeping goroutines end, whatever waits
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = f.log.Close(ended)
	})
	return f
}

func (f *fixture) open(r *round) {
	f.opened++ // guarded by the log's mu
	r.State = f.opened
}

func (f *fixture) empty(r *round) {
	f.emptied++ // guarded by the log's mu
	if len(r.ops) > 0 {
		panic("a round with operations was emptied")
	}
}

func (f *fixture) seal(r *round) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sealed = append(f.sealed, ids(r))
}

func (f *fixture) readTrip(t *Trip[op, int]) {
	f.mu.Lock()
	own := &trip{Trip: t, index: f.made, gate: make(chan struct{})}
	f.made++
	for _, r := range t.Rounds {
		own.rounds = append(own.rounds, ids(r))
	}
	f.read[t.Reader] = append(f.read[t.Reader], own.rounds...)
	f.underWay[t.Reader] = append(f.underWay[t.Reader], own)
	f.mu.Unlock()
	select {
	case <-own.gate:
	case <-f.over:
	}
}

func (f *fixture) miss(reader int, rounds []*round) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rounds {
		f.missed[reader] = append(f.missed[reader], ids(r))
	}
}

// upTo is over for a round and all before it.
func upTo(last *round) func(*round) bool {
	return func(r *round) bool { return r.number <= last.number }
}

// only is over for a round alone.
func only(one *round) func(*round) bool {
	return func(r *round) bool { return r == one }
}

// none is over for no round.
func none(*round) bool { return false }

// ids returns the operations of a sealed round.
func ids(r *round) (all []int) {
	for _, o := range r.Ops() {
		all = append(all, o.id)
	}
	return all
}

// append appends operations of weight 1.
func (f *fixture) append(readers uint64, ids ...int) []place {
	f.Helper()
	places := make([]place, len(ids))
	for i, id := range ids {
		o := &op{id: id, weight: 1}
		r, err := f.log.Append(o, readers)
		require.NoError(f, err)
		places[i] = place{r, o}
	}
	synctest.Wait()
	return places
}

// cancel cancels an operation.
func (f *fixture) cancel(p place) bool { return f.log.Cancel(p.Round, p.op) }

// appendWeights appends operations for all readers, each with its weight as its id.
func (f *fixture) appendWeights(weights ...int) {
	f.Helper()
	for _, w := range weights {
		_, err := f.log.Append(&op{id: w, weight: w}, All)
		require.NoError(f, err)
	}
	synctest.Wait()
}

// end ends the oldest trip of each of these readers.
func (f *fixture) end(readers ...int) {
	f.Helper()
	for _, i := range readers {
		require.NotEmpty(f, f.underWay[i], "reader %d has no trip", i)
		f.endTrip(f.underWay[i][0])
	}
}

func (f *fixture) endTrip(t *trip) {
	f.mu.Lock()
	own := f.underWay[t.Reader]
	at := slices.Index(own, t)
	f.underWay[t.Reader] = slices.Delete(own, at, at+1)
	f.mu.Unlock()
	if !t.sent {
		f.sendTrip(t)
	}
	t.End()
	synctest.Wait()
}

// sent has Read return for the newest trip of a reader.
func (f *fixture) sent(reader int) {
	own := f.underWay[reader]
	f.sendTrip(own[len(own)-1])
}

func (f *fixture) sendTrip(t *trip) {
	t.sent = true
	close(t.gate)
	synctest.Wait()
}

func (f *fixture) set(s ReaderState, readers ...int) {
	for _, i := range readers {
		f.log.SetReader(i, s)
	}
	synctest.Wait()
}

func (f *fixture) hang(readers ...int) {
	for _, i := range readers {
		f.log.Hang(i, none)
	}
	synctest.Wait()
}

// endAll lets all trips end, those that start meanwhile included.
func (f *fixture) endAll() {
	for under := true; under; {
		under = false
		for i := range f.underWay {
			for len(f.underWay[i]) > 0 {
				f.end(i)
				under = true
			}
		}
	}
}

// requireEmpty requires that the log has no operation, and holds no memory of one.
func (f *fixture) requireEmpty() {
	f.Helper()
	l := f.log
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(f, l.open)
	require.Zero(f, l.limited)
	require.False(f, l.sealer.awake)
	requireNils(f, l.open)
	for i := range l.readers {
		r := &l.readers[i]
		require.Zero(f, r.weight)
		require.Zero(f, r.aloft)
		require.Zero(f, r.trips)
		require.False(f, r.sending)
		requireNils(f, r.unread)
	}
	for i, t := range l.spare {
		require.False(f, slices.Contains(l.spare[:i], t), "a trip ended twice")
		require.Empty(f, slices.DeleteFunc(slices.Clone(t.Rounds[:cap(t.Rounds)]),
			func(r *round) bool { return r == nil }), "a trip that ended keeps rounds")
	}
}

// requireNils requires an empty list whose memory keeps no round.
func requireNils(t require.TestingT, rounds []*round) {
	require.Empty(t, rounds)
	for _, r := range rounds[:cap(rounds)] {
		require.Nil(t, r, "the list keeps a round that has left it")
	}
}

// bits returns a set of readers.
func bits(readers ...int) (set uint64) {
	for _, i := range readers {
		set |= 1 << i
	}
	return set
}

// goroutines is how many there are in this bubble. runtime.NumGoroutine counts those of the tests
// before as well, which may still be ending.
func goroutines() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	bubble := regexp.MustCompile(`synctest bubble \d+\]`).Find(stacks) // the first stack is our own
	return bytes.Count(stacks, bubble)
}
