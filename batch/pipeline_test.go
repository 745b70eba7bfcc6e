package batch

import (
	"bytes"
	"context"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// server is the other end of a pipeline: it answers each flush when the test says so.
type server struct {
	mu      sync.Mutex
	flushes [][]int
	done    map[int]int // how often each operation was answered
	gate    chan struct{}
}

func newServer() *server { return &server{done: map[int]int{}, gate: make(chan struct{})} }

func (s *server) flush(ops, replies []int) {
	s.mu.Lock()
	s.flushes = append(s.flushes, append([]int(nil), ops...))
	s.mu.Unlock()
	<-s.gate
	for i, op := range ops {
		replies[i] = -op
	}
}

func (s *server) answered(op, reply int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reply != -op {
		panic("reply of another operation")
	}
	s.done[op]++
}

func (s *server) pipeline(change func(*Config[int, int])) *Pipeline[int, int] {
	cfg := Config[int, int]{
		Flush: s.flush, Done: s.answered, Weight: func(int) int { return 1 },
		MaxFlush: 1000, Window: 1, OverlapAt: few(1), Limit: 1000,
	}
	if change != nil {
		change(&cfg)
	}
	return New(cfg)
}

func few(n int) func() int { return func() int { return n } }

func enqueue(t *testing.T, p *Pipeline[int, int], ops ...int) []*Call[int] {
	t.Helper()
	calls := make([]*Call[int], len(ops))
	for i, op := range ops {
		calls[i] = &Call[int]{Op: op}
		require.NoError(t, p.Enqueue(calls[i]))
	}
	return calls
}

// The goal: what comes while a flush is under way leaves together in the next one; what comes alone
// leaves at once.
func TestFlush_OperationsThatComeDuringOneLeaveTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := s.pipeline(nil)
		enqueue(t, p, 1)
		synctest.Wait()
		enqueue(t, p, 2, 3, 4)
		synctest.Wait()
		require.Equal(t, [][]int{{1}}, s.flushes)
		s.gate <- struct{}{}
		synctest.Wait()
		require.Equal(t, [][]int{{1}, {2, 3, 4}}, s.flushes)
		s.gate <- struct{}{}
		synctest.Wait()
		require.Equal(t, map[int]int{1: 1, 2: 1, 3: 1, 4: 1}, s.done)
	})
}

// The goal: no more than Window flushes are under way, and a further one starts only for OverlapAt
// operations, or twice as many while two are under way, and four times as many while three are.
func TestFlush_ThoseUnderWayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := s.pipeline(func(c *Config[int, int]) { c.Window, c.OverlapAt = 4, few(2) })
		enqueue(t, p, 1)
		synctest.Wait()
		enqueue(t, p, 2)
		synctest.Wait()
		require.Len(t, s.flushes, 1, "one waiting operation is too few for a second flush")
		enqueue(t, p, 3)
		synctest.Wait()
		require.Equal(t, [][]int{{1}, {2, 3}}, s.flushes)
		enqueue(t, p, 4, 5, 6)
		synctest.Wait()
		require.Len(t, s.flushes, 2, "three are too few for a third one")
		enqueue(t, p, 7)
		synctest.Wait()
		require.Equal(t, [][]int{{1}, {2, 3}, {4, 5, 6, 7}}, s.flushes)
		enqueue(t, p, 8, 9, 10, 11, 12, 13, 14)
		synctest.Wait()
		require.Len(t, s.flushes, 3, "seven are too few for a fourth one")
		enqueue(t, p, 15)
		synctest.Wait()
		require.Len(t, s.flushes, 4)
		require.Len(t, s.flushes[3], 8)
		for op := range 40 {
			enqueue(t, p, op+16)
		}
		synctest.Wait()
		require.Len(t, s.flushes, 4, "the window is full")
		close(s.gate)
		synctest.Wait()
		require.Len(t, s.done, 55)
	})
}

// The goal: a flush never has more than MaxFlush operations, in order, and nothing is lost over
// many of them.
func TestFlush_IsBoundedAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := s.pipeline(func(c *Config[int, int]) { c.MaxFlush = 7 })
		next := 0
		for range 500 {
			for range 5 {
				next++
				enqueue(t, p, next)
			}
			synctest.Wait()
			s.gate <- struct{}{}
			synctest.Wait()
		}
		close(s.gate)
		synctest.Wait()
		var all []int
		for _, f := range s.flushes {
			require.LessOrEqual(t, len(f), 7)
			all = append(all, f...)
		}
		require.Len(t, all, next)
		require.IsIncreasing(t, all)
		require.Len(t, s.done, next)
		require.LessOrEqual(t, cap(p.backlog), 64, "the backlog's memory is bounded by what waited")
		for _, c := range p.backlog[:cap(p.backlog)] {
			require.Nil(t, c, "what was answered is kept alive")
		}
	})
}

// The goal: a flush takes all that it may.
func TestFlush_IsFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := s.pipeline(func(c *Config[int, int]) {
			c.Weight,
				c.MaxFlush = func(op int) int { return op }, 10
		})
		enqueue(t, p, 20)
		synctest.Wait()
		enqueue(t, p, 4, 6, 1)
		close(s.gate)
		synctest.Wait()
		require.Equal(t, [][]int{{20}, {4, 6}, {1}}, s.flushes)
	})
}

// The goal: flushes are bounded by weight; what is heavier than a flush goes alone.
func TestFlush_IsBoundedByWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := s.pipeline(func(c *Config[int, int]) {
			c.Weight,
				c.MaxFlush = func(op int) int { return op }, 10
		})
		close(s.gate)
		s.mu.Lock()
		for _, op := range []int{1, 4, 5, 1, 50, 3, 7} {
			require.NoError(t, p.Enqueue(&Call[int]{Op: op}))
		}
		s.mu.Unlock()
		synctest.Wait()
		var all []int
		for _, f := range s.flushes {
			sum := 0
			for _, op := range f {
				sum += op
			}
			require.True(t, sum <= 10 || len(f) == 1, "%v", f)
			all = append(all, f...)
		}
		require.Equal(t, []int{1, 4, 5, 1, 50, 3, 7}, all)
		require.Zero(t, p.weight)
	})
}

// The goal: while one flush that is heavier than usual is under way, the others start only up to
// the weight of a full window.
func TestFlush_TheWeightUnderWayIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := s.pipeline(func(c *Config[int, int]) {
			c.Weight, c.MaxFlush, c.Window = func(op int) int { return op }, 10, 3
		})
		next := func(ops ...int) [][]int {
			enqueue(t, p, ops...)
			synctest.Wait()
			flushes := s.flushes
			s.flushes = nil
			return flushes
		}
		require.Equal(t, [][]int{{24}}, next(24))
		require.Empty(t, next(7), "31 of 30")
		s.gate <- struct{}{} // for the 24
		require.Equal(t, [][]int{{7}}, next())
		require.Equal(t, [][]int{{23}}, next(23), "just 30")
		require.Empty(t, next(1, 3, 6))
		s.gate <- struct{}{} // for the 7
		require.Equal(t, [][]int{{1, 3}}, next())
		s.gate <- struct{}{} // for the 23
		close(s.gate)
		require.Equal(t, [][]int{{6}}, next())
		require.Len(t, s.done, 6)
		require.Zero(t, p.inFlight)
	})
}

// The goal: the backlog is bounded, follow-ups are never refused and do not use up the room, and
// what was taken is sent.
func TestEnqueue_ReportsOverloadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := s.pipeline(func(c *Config[int, int]) { c.Limit = 2 })
		enqueue(t, p, 1)
		synctest.Wait()
		for op := 10; op < 20; op++ {
			p.EnqueueFollowUp(&Call[int]{Op: op})
		}
		enqueue(t, p, 2, 3)
		late := &Call[int]{Op: 4}
		require.ErrorIs(t, p.Enqueue(late), ErrOverloaded)
		close(s.gate)
		synctest.Wait()
		require.Len(t, s.done, 13)
		require.NoError(t, p.Enqueue(late), "there is room again")
		synctest.Wait()
		require.Equal(t, 1, s.done[4])
	})
}

// The goal: Close refuses new operations, lets follow-ups through, and returns when everything is
// answered.
func TestClose_WaitsForWhatWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := s.pipeline(nil)
		enqueue(t, p, 1, 2)
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- p.Close(context.Background()) }()
		synctest.Wait()
		require.ErrorIs(t, p.Enqueue(&Call[int]{Op: 3}), ErrClosed)
		p.EnqueueFollowUp(&Call[int]{Op: 4})
		select {
		case <-closed:
			t.Fatal("closed while operations are under way")
		default:
		}
		close(s.gate)
		require.NoError(t, <-closed)
		require.Equal(t, map[int]int{1: 1, 2: 1, 4: 1}, s.done)
		require.NoError(t, p.Close(context.Background()))
	})
}

// The goal: Close is bounded by its context, and what is under way is answered all the same.
func TestClose_IsBoundedByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := s.pipeline(nil)
		enqueue(t, p, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, p.Close(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		close(s.gate)
		require.NoError(t, p.Close(t.Context()))
		require.Equal(t, 1, s.done[1])
	})
}

// goroutines is how many there are in this bubble. runtime.NumGoroutine counts those of the tests
// before as well, which may still be ending.
func goroutines() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	bubble := regexp.MustCompile(`synctest bubble \d+\]`).Find(stacks) // the first stack is our own
	return bytes.Count(stacks, bubble)
}

// The goal: an idle pipeline has no goroutine, before the first operation and after the last.
func TestPipeline_HasNoGoroutineWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		before := goroutines()
		p := s.pipeline(func(c *Config[int, int]) { c.Window = 4 })
		require.Equal(t, before, goroutines())
		enqueue(t, p, 1, 2, 3, 4, 5)
		synctest.Wait()
		require.Greater(t, goroutines(), before)
		close(s.gate)
		synctest.Wait()
		require.Equal(t, before, goroutines())
	})
}

// The goal: with everything at once, every operation that was taken is answered once or was
// cancelled before it was sent.
func TestPipeline_EveryOperationIsAnsweredOnceOrCancelled(t *testing.T) {
	const callers, each = 8, 2000
	s := newServer()
	close(s.gate)
	p := s.pipeline(func(c *Config[int, int]) {
		c.Window, c.OverlapAt, c.MaxFlush, c.Limit = 3, few(5),
			50, 100
	})
	var all sync.WaitGroup
	var mu sync.Mutex
	cancelled, refused := map[int]bool{}, map[int]bool{}
	for g := range callers {
		all.Go(func() {
			for i := range each {
				op := g*each + i + 1
				c := &Call[int]{Op: op}
				if err := p.Enqueue(c); err != nil {
					mu.Lock()
					refused[op] = true
					mu.Unlock()
				} else if i%3 == 0 && p.Cancel(c) {
					mu.Lock()
					cancelled[op] = true
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	require.NoError(t, p.Close(t.Context()))
	s.mu.Lock()
	defer s.mu.Unlock()
	for op := 1; op <= callers*each; op++ {
		want := 1
		if cancelled[op] || refused[op] {
			want = 0
		}
		require.Equal(t, want, s.done[op], "operation %d", op)
	}
	require.Zero(t, p.Waiting())
}

// The goal: callers that the last flush woke, and that call again at once, are all in the next one.
// Without the yield a drain takes the first of them alone.
func TestFlush_TakesTheCallersThatTheLastOneWoke(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // what runs meanwhile is the scheduler's
	const callers, turns = 16, 200
	flushes := 0
	woken := make([]chan struct{}, callers)
	p := New(Config[int, int]{
		Flush: func([]int, []int) { flushes++ },
		Done:  func(op, _ int) { woken[op] <- struct{}{} }, Weight: func(int) int { return 1 },
		MaxFlush: 1000, Window: 1, OverlapAt: few(1), Limit: 1000,
	})
	var all sync.WaitGroup
	for i := range woken {
		woken[i] = make(chan struct{}, 1)
		all.Go(func() {
			c := &Call[int]{Op: i}
			for range turns {
				require.NoError(t, p.Enqueue(c))
				<-woken[i]
			}
		})
	}
	all.Wait()
	require.NoError(t, p.Close(context.Background()))
	require.Less(t, flushes, 2*turns, "%d operations", callers*turns)
}
