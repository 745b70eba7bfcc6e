package combine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slow is a second queue, which is obvious: it has one list of all calls, and looks at all of them.
type slow struct {
	maxItems, maxKeys, maxPassed int
	calls                        []*slowCall // in the order of arrival
	batches                      []*slowBatch
}

type slowCall struct {
	id, passed int
	keys       []string
	in         *slowBatch
}

type slowBatch struct {
	claims []string
	parked bool
	begun  bool
}

func shares(a, b []string) (n int) {
	for _, k := range a {
		if slices.Contains(b, k) {
			n++
		}
	}
	return n
}

func (s *slow) isPassable(c *slowCall) bool {
	return c.in == nil || c.in.parked && !c.in.begun
}

func (s *slow) mayStart(c *slowCall) bool {
	for _, b := range s.batches {
		if shares(c.keys, b.claims) > 0 {
			return false
		}
	}
	for _, w := range s.calls {
		if w == c {
			return true
		}
		if s.isPassable(w) && w.passed >= s.maxPassed && shares(c.keys, w.keys) > 0 {
			return false
		}
	}
	return true
}

func (s *slow) take(c *slowCall, b *slowBatch) {
	c.in = b
	for _, w := range s.calls {
		if w == c {
			return
		}
		if s.isPassable(w) {
			w.passed += shares(c.keys, w.keys)
		}
	}
}

// step starts what may start. It returns the ids of each new batch.
func (s *slow) step() (started [][]int) {
	for i, c := range s.calls {
		if c.in != nil || !s.mayStart(c) {
			continue
		}
		b := &slowBatch{}
		s.take(c, b)
		ids, keys := []int{c.id}, slices.Clone(c.keys)
		for _, j := range s.calls[i+1:] {
			union := append([]string(nil), keys...)
			for _, k := range j.keys {
				if !slices.Contains(union, k) {
					union = append(union, k)
				}
			}
			if j.in == nil && len(ids) < s.maxItems && shares(j.keys, keys) > 0 &&
				len(union) <= s.maxKeys && s.mayStart(j) {
				s.take(j, b)
				ids, keys = append(ids, j.id), union
			}
		}
		b.claims = keys
		s.batches = append(s.batches, b)
		started = append(started, ids)
	}
	return started
}

func (s *slow) remove(gone func(c *slowCall) bool) {
	s.calls = slices.DeleteFunc(s.calls, gone)
}

// The goal: the queue starts the same batches as the slow one, whatever comes, leaves, ends, or is
// refused. At the end nothing is left in it. No two batches claim one key, except a parked batch
// that began.
func TestQueue_IsLikeTheSlowOne(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for n := range uint64(100) {
		t.Run(strconv.FormatUint(seed+n, 10), func(t *testing.T) { compareQueues(t, seed+n) })
		if t.Failed() {
			return
		}
	}
}

type pair struct {
	fast *batch
	slow *slowBatch
}

func compareQueues(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &slow{maxItems: 1 + r.IntN(5), maxKeys: 3 + r.IntN(5), maxPassed: 1 + r.IntN(4)}
	q := newQueue(s.maxItems, s.maxKeys, s.maxPassed)
	calls, twins := make(map[int]*call), make(map[int]*slowCall)
	var running []pair
	next := 0
	check := func(what string, fast []*batch) {
		t.Helper()
		var ids [][]int
		for _, b := range fast {
			var of []int
			for _, c := range b.calls {
				of = append(of, c.owner.(int))
			}
			ids = append(ids, of)
		}
		want := s.step()
		require.Equal(t, want, ids, what)
		for i, b := range fast {
			running = append(running, pair{b, twins[want[i][0]].in})
		}
		require.Equal(t, len(s.calls), q.pending, what)
		for id, c := range calls {
			require.LessOrEqual(t, c.passed, s.maxPassed+s.maxKeys)
			require.Equal(t, twins[id].passed, c.passed, "%s: passes of %d", what, id)
		}
	}
	for step := 0; step < 300 || len(s.calls) > 0; step++ {
		p := r.IntN(10)
		switch {
		case p < 4 && step < 300:
			var keys []string
			for range 1 + r.IntN(3) {
				if k := strconv.Itoa(r.IntN(6)); !slices.Contains(keys, k) {
					keys = append(keys, k)
				}
			}
			c := &call{keys: keys, owner: next}
			calls[next], twins[next] = c, &slowCall{id: next, keys: keys}
			s.calls = append(s.calls, twins[next])
			next++
			check(fmt.Sprintf("add %v", keys), q.add(c))
		case p < 5 && len(s.calls) > 0:
			w := s.calls[r.IntN(len(s.calls))]
			could, _, started := q.leave(calls[w.id])
			require.Equal(t, w.in == nil || !w.in.begun, could)
			if could {
				delete(calls, w.id)
				s.remove(func(c *slowCall) bool { return c == w })
				check(fmt.Sprintf("leave %d", w.id), started)
			}
		case p < 6 && len(running) > 0:
			b := running[r.IntN(len(running))]
			if b.fast.begun || b.fast.parked || len(b.fast.calls) == 0 {
				continue
			}
			held := []string{b.fast.keys[r.IntN(len(b.fast.keys))]}
			wanted := slices.ContainsFunc(s.calls, func(c *slowCall) bool {
				return c.in == b.slow && shares(c.keys, held) > 0
			})
			for _, c := range s.calls {
				if wanted && c.in == b.slow && shares(c.keys, held) == 0 {
					c.in = nil
				}
			}
			if wanted {
				b.slow.parked, b.slow.claims = true, held
			}
			check(fmt.Sprintf("refuse %v", held), q.refuse(b.fast, held))
		case p < 8 && len(running) > 0:
			b := running[r.IntN(len(running))]
			if b.fast.begun {
				continue
			}
			q.begin(b.fast)
			if b.slow.begun = true; b.slow.parked {
				b.slow.claims = b.fast.keys
			}
		case len(running) > 0:
			i := r.IntN(len(running))
			b := running[i]
			running = slices.Delete(running, i, i+1)
			for _, c := range b.fast.calls {
				delete(calls, c.owner.(int))
			}
			s.remove(func(c *slowCall) bool { return c.in == b.slow })
			s.batches = slices.DeleteFunc(s.batches, func(o *slowBatch) bool { return o == b.slow })
			check("end", q.end(b.fast, false))
		}
	}
	for _, b := range running {
		q.end(b.fast, false)
	}
	require.Empty(t, q.claims)
	require.Empty(t, q.waiting)
	require.Zero(t, q.pending)
}
