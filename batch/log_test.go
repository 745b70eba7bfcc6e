package batch

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// The goal: an operation that comes alone leaves at once. Those that come during its trip leave
// together in the next one.
func TestAppend_OperationsThatComeDuringATripLeaveTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, nil)
		f.append(All, 1)
		require.Equal(t, [][]int{{1}}, f.read[0])
		f.append(All, 2, 3, 4)
		require.Equal(t, [][]int{{1}}, f.read[0])
		require.Equal(t, 3, f.log.Waiting(0))
		f.end(0)
		require.Equal(t, [][]int{{1}, {2, 3, 4}}, f.read[0])
		require.Zero(t, f.log.Waiting(0))
		f.endAll()
		require.Equal(t, f.read[0], f.sealed)
		f.requireEmpty()
	})
}

// The goal: rounds and trips are filled up to MaxWeight, and not beyond. What is heavier is alone
// in its round.
func TestAppend_RoundsAreFilledAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, nil)
		f.appendWeights(20)
		f.appendWeights(4, 6, 1, 50, 3, 7)
		f.endAll()
		require.Equal(t, [][]int{{20}, {4, 6}, {1}, {50}, {3, 7}}, f.read[0])
		f.requireEmpty()
	})
}

// The goal: all operations are read in the order in which they came, over many rounds, and the
// memory is bounded by what waited at the same time.
func TestAppend_TheOrderIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, func(c *Config[op, int]) { c.MaxWeight = 7 })
		next := 0
		for range 300 {
			for range 5 {
				next++
				f.append(All, next)
			}
			f.end(0)
		}
		f.endAll()
		var all []int
		for _, r := range f.read[0] {
			require.LessOrEqual(t, len(r), 7)
			all = append(all, r...)
		}
		require.Len(t, all, next)
		require.IsIncreasing(t, all)
		require.LessOrEqual(t, cap(f.log.open), 8)
		f.requireEmpty()
	})
}

// The goal: what waits is bounded. A follow-up is never refused, and does not use up the room.
func TestAppend_ReportsOverloadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, func(c *Config[op, int]) { c.Limit, c.MaxWeight = 2, 4 })
		f.append(All, 1)
		for id := 10; id < 20; id++ {
			_, err := f.log.Append(&op{id: id, weight: 1, followUp: true}, All)
			require.NoError(t, err)
		}
		f.append(All, 2, 3)
		late := &op{id: 4, weight: 1}
		_, err := f.log.Append(late, All)
		require.ErrorIs(t, err, ErrOverloaded)
		f.endAll()
		_, err = f.log.Append(late, All)
		require.NoError(t, err, "there is room again")
		synctest.Wait()
		require.Equal(t, [][]int{{1}, {10, 11, 12, 13}, {14, 15, 16, 17}, {18, 19, 2, 3}, {4}},
			f.read[0])
		f.endAll()
		f.requireEmpty()
	})
}

// The goal: callers that the last trip woke, and that call again at once, are all in the next
// round. If sealing did not yield, it would take the first of them alone.
func TestAppend_TheCallersThatATripWokeShareARound(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // what runs meanwhile is the scheduler's
	const callers, turns = 16, 200
	woken := make([]chan struct{}, callers)
	trips := 0
	log := New(Config[op, int]{
		Readers: 1, Quorum: 1, Weight: func(*op) int { return 1 },
		Read: func(t *Trip[op, int]) {
			trips++
			for range 4 * callers { // it takes some time
				runtime.Gosched()
			}
			for _, o := range t.Rounds[0].Ops() {
				woken[o.id] <- struct{}{}
			}
			t.End()
		},
		MaxWeight: 1000, Window: 1, Limit: 1000,
	})
	var all sync.WaitGroup
	for i := range woken {
		woken[i] = make(chan struct{}, 1)
		all.Go(func() {
			o := &op{id: i}
			for range turns {
				_, err := log.Append(o, All)
				require.NoError(t, err)
				<-woken[i]
			}
		})
	}
	all.Wait()
	require.NoError(t, log.Close(t.Context()))
	require.Less(t, trips, 3*turns/2, "%d operations", callers*turns)
}

// ledger has how often each operation came to each reader.
type ledger struct {
	*testing.T
	each int // operations of one caller

	mu   sync.Mutex // guards all below
	got  []map[int]int
	last []map[int]int // by reader and caller: the last operation that was read
}

// take notes that a reader has read or missed rounds.
func (l *ledger) take(reader int, rounds []*round, read bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range rounds {
		for _, o := range r.Ops() {
			l.got[reader][o.id]++
			if !read {
				continue
			}
			caller := o.id / l.each
			if before := l.last[reader][caller]; o.id < before {
				l.Errorf("reader %d: %d after %d", reader, o.id, before)
			}
			l.last[reader][caller] = o.id
		}
	}
}

// require requires that each operation came to each of its readers once. The readers of one that
// was refused or cancelled are 0.
func (l *ledger) require(readers []uint64) {
	l.Helper()
	for id, set := range readers {
		for i := range l.got {
			if set>>i&1 == 1 {
				require.Equal(l, 1, l.got[i][id], "operation %d at reader %d", id, i)
			} else if set == 0 {
				require.Zero(l, l.got[i][id], "operation %d at reader %d", id, i)
			}
		}
	}
}

// The goal: with everything at once, on several processors, each operation that was taken is in
// exactly one call of Read or Missed for each of its readers, or was cancelled. Each reader gets
// its operations in order.
func TestAppend_EachOperationIsReadOrMissedOnceOrCancelled(t *testing.T) {
	const callers, each, readers = 8, 1500, 3
	book := &ledger{T: t, each: each}
	for range readers {
		book.got, book.last = append(book.got, map[int]int{}), append(book.last, map[int]int{})
	}
	log := New(Config[op, int]{
		Readers: readers, Quorum: 2, Weight: func(*op) int { return 1 },
		Read: func(tr *Trip[op, int]) {
			book.take(tr.Reader, tr.Rounds, true)
			runtime.Gosched()
			_ = tr.MustLook()
			if tr.Reader > 0 {
				go tr.End()
			} else {
				tr.End()
			}
		},
		Missed:    func(i int, rounds []*round) { book.take(i, rounds, false) },
		MaxWeight: 50, Window: 3, OverlapAt: func(int) int { return 5 }, Limit: 100,
	})
	var all sync.WaitGroup
	taken := make([]uint64, callers*each)
	for g := range callers {
		all.Go(func() {
			for i := range each {
				id, set := g*each+i, bits(0, 1, 2)
				if i%5 == 0 {
					set = bits(i % readers)
				}
				o := &op{id: id, weight: 1}
				r, err := log.Append(o, set)
				if err == nil && (i%3 != 0 || !log.Cancel(r, o)) {
					taken[id] = set
				}
				switch {
				case i%50 == 0:
					log.SetReader(g%readers, ReaderState(i/50%3))
				case i%7 == 0:
					log.Hang(g%readers, none)
				case i%11 == 0 && err == nil:
					log.Hang(g%readers, only(r))
				}
			}
		})
	}
	all.Wait()
	for i := range readers {
		log.SetReader(i, Reading)
	}
	require.NoError(t, log.Close(t.Context()))
	book.require(taken)
}
