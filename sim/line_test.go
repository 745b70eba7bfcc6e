package sim

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
)

// inProcesses runs a test with so many processes, whose messages take between a quarter of latency
// and five quarters. No vote takes long, and nothing fails.
func inProcesses(t *testing.T, n int, latency time.Duration, test func(*testing.T, *run)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRun(1, &Plan{
			clients: n, timeout: 100 * time.Millisecond, latency: latency, spike: 1,
		})
		for _, p := range r.processes {
			p.startClient()
		}
		time.Sleep(recoveryTime) // all are connected
		test(t, r)
		r.drain()
		require.Empty(t, r.history.violations)
	})
}

// handOvers counts turns of processes that want one key.
type handOvers struct {
	mu       sync.Mutex // guards all below
	turns    map[*process]int
	last     *process
	released time.Time     // by last
	pauses   time.Duration // between holders in different processes
	others   int           // how many of them there were
}

// begins counts a turn.
func (h *handOvers) begins(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last != nil && h.last != p {
		h.pauses += time.Since(h.released)
		h.others++
	}
	h.turns[p]++
	h.last = p
}

// ends notes the end of a turn.
func (h *handOvers) ends() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = time.Now()
}

// use has n callers of p use the key until then.
func (h *handOvers) use(t *testing.T, p *process, n int, all *sync.WaitGroup, until time.Time) {
	for i := range n {
		rng := rand.New(rand.NewPCG(uint64(p.number), uint64(i)))
		all.Go(func() {
			for time.Now().Before(until) {
				l, err := p.currentClient().Acquire(t.Context(), "hot")
				if err != nil {
					t.Error(err)
					return
				}
				h.begins(p)
				time.Sleep(around(rng, 5*time.Millisecond))
				h.ends()
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// The goal: two processes with 8 callers each have the same number of turns in each three seconds,
// however far the nodes are. Between two holders in different processes are two round trips.
func TestLine_IsFairAtEachDistance(t *testing.T) {
	for _, latency := range []time.Duration{
		150 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond,
		3 * time.Millisecond, 10 * time.Millisecond,
	} {
		inProcesses(t, 2, latency, func(t *testing.T, r *run) {
			for range 3 {
				h := handOvers{turns: map[*process]int{}}
				until := time.Now().Add(3 * time.Second)
				var all sync.WaitGroup
				for _, p := range r.processes {
					h.use(t, p, 8, &all, until)
				}
				all.Wait()
				a, b := h.turns[r.processes[0]], h.turns[r.processes[1]]
				pause := h.pauses / time.Duration(h.others)
				t.Logf("latency %v: %d and %d turns, %v between holders in different processes",
					latency, a, b, pause)
				require.Greater(t, 2*min(a, b), (a+b)*8/10)
				require.Less(t, pause, 4*latency)
			}
		})
	}
}

// The goal: when a holder is killed, the next process has the key as soon as its time is over.
func TestLine_AfterAKilledHolder(t *testing.T) {
	const latency = 200 * time.Microsecond
	inProcesses(t, 8, latency, func(t *testing.T, r *run) {
		killed := r.processes[0]
		_, err := killed.currentClient().Acquire(t.Context(), "hot", lockpipe.WithTTL(time.Second))
		require.NoError(t, err)
		begun := time.Now()
		killed.pausedUntil.set(begun.Add(time.Minute))
		var all sync.WaitGroup
		var first sync.Once
		for _, p := range r.processes[1:] {
			all.Go(func() {
				l, err := p.currentClient().Acquire(t.Context(), "hot")
				if err != nil {
					t.Error(err)
					return
				}
				first.Do(func() {
					t.Logf("%v after the grant", time.Since(begun))
					require.Less(t, time.Since(begun), time.Second+60*time.Millisecond)
				})
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}
