package batch

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// requireSame compares the log with the model.
func (f *fixture) requireSame(m *model, step string) {
	f.Helper()
	require.Equal(f, m.sealed, f.sealed, step)
	require.Equal(f, m.opened, f.opened, step)
	require.Equal(f, m.emptied, f.emptied, step)
	for i := range m.readers {
		r := &m.readers[i]
		var want, got [][][]int
		for at, t := range r.trips {
			var rounds [][]int
			for _, round := range t.rounds {
				rounds = append(rounds, round.ids())
			}
			want = append(want, rounds)
			if at < len(f.underWay[i]) {
				own := f.underWay[i][at]
				got = append(got, own.rounds)
				mustLook := t.behind || r.newest > t.rounds[0].number
				require.Equal(f, mustLook, own.MustLook(), step)
			}
		}
		require.Equal(f, want, got, "%s: trips of reader %d", step, i)
		require.Len(f, f.underWay[i], len(r.trips), step)
		require.Equal(f, r.missed, f.missed[i], "%s: reader %d", step, i)
		waiting := 0
		for _, round := range append(slices.Clone(m.open), r.unread...) {
			if round.isFor(i) {
				waiting += len(round.live())
			}
		}
		require.Equal(f, waiting, f.log.Waiting(i), step)
	}
}

// The goal: after each of many random events, the log has done exactly what a log does that is slow
// and obvious. In the end each operation was cancelled, or each of its readers got it once, in
// order.
func TestReader_AsTheModel(t *testing.T) {
	for seed := range int64(60) {
		synctest.Test(t, func(t *testing.T) { randomEvents(t, seed) })
		if t.Failed() {
			return
		}
	}
}

func randomEvents(t *testing.T, seed int64) {
	random := rand.New(rand.NewSource(seed))
	overlap := 1 + random.Intn(12)
	f := newFixture(t, 1+random.Intn(5), func(c *Config[op, int]) {
		c.Window, c.Limit = 1+random.Intn(4), 10+random.Intn(60)
		c.OverlapAt = func(i int) int { return overlap + i }
	})
	m := &model{cfg: f.cfg, readers: make([]modelReader, f.cfg.Readers)}
	var ops []*modelOp
	var places []place
	anyOf := func() int { return random.Intn(f.cfg.Readers) }
	for id := range 400 {
		step := fmt.Sprintf("seed %d, event %d", seed, id)
		i := anyOf()
		r := &m.readers[i]
		switch n := random.Intn(100); {
		case n < 40:
			o := &op{id: id, weight: 1 + random.Intn(4), followUp: random.Intn(4) == 0}
			if random.Intn(30) == 0 {
				o.weight = 25
			}
			readers := random.Perm(f.cfg.Readers)
			if random.Intn(3) == 0 {
				readers = readers[:1+anyOf()]
			}
			own, want := m.append(o, readers)
			r, err := f.log.Append(o, bits(readers...))
			require.Equal(t, want, err, step)
			if err == nil {
				ops, places = append(ops, own), append(places, place{r, o})
			}
		case n < 52 && len(ops) > 0:
			at := len(ops) - 1 - random.Intn(min(len(ops), 12))
			want := m.cancel(ops[at])
			require.Equal(t, want, f.cancel(places[at]), step)
		case n < 62 && len(r.trips) > 0:
			if last := len(r.trips) - 1; !r.trips[last].sent {
				r.trips[last].sent = true
				m.settle()
				f.sent(i)
			}
		case n < 86 && len(r.trips) > 0:
			at := random.Intn(len(r.trips))
			m.end(i, at)
			f.endTrip(f.underWay[i][at])
		case n < 90:
			s := ReaderState(max(0, random.Intn(5)-2))
			m.set(i, s)
			f.set(s, i)
		case n < 96:
			first, last := random.Intn(len(m.sealed)+1), random.Intn(len(m.sealed)+1)
			over := func(number int) bool { return first <= number && number <= last }
			m.hang(i, over)
			f.log.Hang(i, func(r *round) bool { return over(int(r.number)) })
		}
		synctest.Wait()
		f.requireSame(m, step)
	}
	f.finish(m, ops)
}

// finish lets everything end.
func (f *fixture) finish(m *model, ops []*modelOp) {
	f.Helper()
	for i := range m.readers {
		m.set(i, Reading)
		f.set(Reading, i)
	}
	f.requireSame(m, "the end")
	f.endAll()
	require.NoError(f, f.log.Close(f.Context()))
	f.requireEmpty()
	f.requireEachOnce(ops)
}

// requireEachOnce requires that each reader got the operations that it was to get once. What it has
// read, it has read in the order of the log.
func (f *fixture) requireEachOnce(ops []*modelOp) {
	f.Helper()
	order := map[int]int{}
	for _, ids := range f.sealed {
		for _, id := range ids {
			order[id] = len(order)
		}
	}
	for i := range f.cfg.Readers {
		got := map[int]int{}
		read := slices.Concat(f.read[i]...)
		inOrder := func(a, b int) int { return order[a] - order[b] }
		require.True(f, slices.IsSortedFunc(read, inOrder))
		for _, id := range append(read, slices.Concat(f.missed[i]...)...) {
			got[id]++
		}
		for _, o := range ops {
			switch {
			case o.cancelled:
				require.Zero(f, got[o.id])
			case slices.Contains(o.readers, i):
				require.Equal(f, 1, got[o.id], "operation %d at reader %d", o.id, i)
			}
		}
	}
}
