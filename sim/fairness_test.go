package sim

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// The goal: processes that want the same key all the time take turns. None acquires it again and
// again while others wait, few attempts fail, and votes are hardly ever split. The test runs in
// virtual time: on a busy machine more attempts would fail, and the scheduler would choose who
// comes next.
func TestFairness_ProcessesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const processes, turns = 8, 400
		r := newRun(1, &Plan{
			clients: processes, timeout: time.Second,
			latency: 200 * time.Microsecond, spike: 1,
		})
		for _, p := range r.processes {
			p.startClient()
		}
		time.Sleep(recoveryTime) // all are connected
		shares := make([]int, processes)
		acquired := 0
		var all sync.WaitGroup
		for i, p := range r.processes {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			all.Go(func() {
				for {
					l, err := p.currentClient().Acquire(t.Context(), "hot")
					if err != nil {
						t.Error(err)
						return
					}
					shares[i]++ // the key's lock guards acquired too
					acquired++
					finished := acquired >= turns
					if err := l.Release(t.Context()); err != nil {
						t.Error(err)
					}
					if finished {
						return
					}
					p.jitter(rng)
				}
			})
		}
		all.Wait()
		var attempts, splitVotes uint64
		for _, p := range r.processes {
			attempts += p.currentClient().Stats().Attempts
			splitVotes += p.currentClient().Stats().SplitVotes
		}
		t.Logf("shares %v, %d attempts, %d split votes in %v", shares, attempts, splitVotes,
			time.Since(r.history.start)-recoveryTime)
		r.drain()
		require.Empty(t, r.history.violations)
		for _, share := range shares {
			require.Greater(t, share, turns/processes/3)
		}
		require.Less(t, attempts, uint64(3*turns))
		require.Less(t, splitVotes, uint64(turns/10))
	})
}

// The goal: callers that want {a,b} do not keep a crowd of their process from a or from b, while
// crowds of other processes want both keys too. No crowd waits long for its next turn, the crowds
// share the turns, and a caller that wants {a,b} has a part of what another caller has.
func TestFairness_CrowdsAndASetOfTheirKeys(t *testing.T) {
	for _, test := range []struct {
		processes, callers, sets, part int
		longest                        time.Duration
	}{
		{2, 8, 2, 4, 800 * time.Millisecond},
		{2, 16, 1, 4, 800 * time.Millisecond},
		{4, 1, 4, 10, 5 * time.Second},
		{16, 1, 4, 20, 5 * time.Second},
	} {
		for seed := range uint64(2) {
			synctest.Test(t, func(t *testing.T) {
				crowds, sets := crowdsAndSets(t, seed, test.processes, test.callers, test.sets)
				var longest time.Duration
				turns, least, turnsOfSets := 0, math.MaxInt, 0
				for _, c := range crowds {
					longest, least = max(longest, c.longest), min(least, c.turns)
					turns += c.turns
				}
				for _, c := range sets {
					turnsOfSets += c.turns
				}
				t.Logf("%+v: a crowd waited for %v at most, and had %d of %d turns at least; sets "+
					"had %d turns", test, longest, least, turns, turnsOfSets)
				require.Less(t, longest, test.longest)
				require.Greater(t, least, turns/len(crowds)/2)
				ofACaller := turns / (len(crowds) * test.callers)
				require.Greater(t, turnsOfSets/test.sets, ofACaller/test.part)
			})
		}
	}
}

// The goal: a process that only wants {a,b} gets its turns beside the crowds of other processes.
func TestFairness_ASetOfAProcessOfItsOwn(t *testing.T) {
	for _, test := range []struct{ crowds, callers, sets int }{{2, 4, 1}, {16, 1, 2}} {
		inProcesses(t, test.crowds+test.sets, 200*time.Microsecond, func(t *testing.T, r *run) {
			var all sync.WaitGroup
			var sets []*crowd
			for i, p := range r.processes {
				if i < test.crowds {
					p.crowd(&all, test.callers, "a")
					p.crowd(&all, test.callers, "b")
				} else {
					sets = append(sets, p.crowd(&all, 1, "a", "b"))
				}
			}
			all.Wait()
			for _, c := range sets {
				t.Logf("%+v: %d turns, the longest wait %v", test, c.turns, c.longest)
				require.Less(t, c.longest, 5*time.Second)
				require.Greater(t, c.turns, 5)
			}
		})
	}
}

// The goal: callers that want {a,b} do not keep others from a while somebody holds b for long.
func TestFairness_ASetThatWaitsForLong(t *testing.T) {
	for _, processes := range []int{2, 4} {
		turns := map[bool]int{}
		for _, withSets := range []bool{false, true} {
			inProcesses(t, processes, 200*time.Microsecond, func(t *testing.T, r *run) {
				b, err := r.processes[0].currentClient().Acquire(t.Context(), "b",
					lockpipe.WithAutoExtend(time.Hour))
				require.NoError(t, err)
				var all sync.WaitGroup
				var ofA []*crowd
				for _, p := range r.processes {
					ofA = append(ofA, p.crowd(&all, 4, "a"))
					if withSets {
						p.crowd(&all, 1, "a", "b")
					}
				}
				time.Sleep(8 * time.Second)
				require.NoError(t, b.Release(t.Context()))
				all.Wait()
				for _, c := range ofA {
					turns[withSets] += c.turns
				}
			})
		}
		t.Logf("%d processes: %d turns of a without sets, %d with them", processes, turns[false],
			turns[true])
		require.Greater(t, turns[true], turns[false]*8/10)
	}
}

// crowdsAndSets has processes use the keys a and b for some time. Each has a crowd of callers of a
// and one of b. So many of the processes have one caller that wants both.
func crowdsAndSets(t *testing.T, seed uint64, processes, callers, sets int) (
	ofOne, ofBoth []*crowd,
) {
	r := newRun(seed, &Plan{
		clients: processes, timeout: 100 * time.Millisecond,
		latency: 200 * time.Microsecond, spike: 1,
	})
	for _, p := range r.processes {
		p.startClient()
	}
	time.Sleep(recoveryTime) // all are connected
	var all sync.WaitGroup
	for i, p := range r.processes {
		ofOne = append(ofOne, p.crowd(&all, callers, "a"), p.crowd(&all, callers, "b"))
		if i < sets {
			ofBoth = append(ofBoth, p.crowd(&all, 1, "a", "b"))
		}
	}
	all.Wait()
	r.drain()
	require.Empty(t, r.history.violations)
	return ofOne, ofBoth
}

// crowd is callers of one process that want the same keys all the time.
type crowd struct {
	mu      sync.Mutex // guards all below
	turns   int
	last    time.Time     // when a turn began
	longest time.Duration // between two turns
}

// crowd starts n callers that want these keys for eight seconds, and hold them for about 5 ms.
func (p *process) crowd(all *sync.WaitGroup, n int, keys ...string) *crowd {
	c := &crowd{last: time.Now()}
	end := time.Now().Add(8 * time.Second)
	for i := range n {
		rng := rand.New(rand.NewPCG(uint64(p.number), uint64(i)))
		all.Go(func() {
			for time.Now().Before(end) {
				l, err := p.currentClient().AcquireAll(context.Background(), keys)
				if err != nil {
					panic(err)
				}
				c.mu.Lock()
				c.turns++
				c.longest, c.last = max(c.longest, time.Since(c.last)), time.Now()
				c.mu.Unlock()
				time.Sleep(around(rng, 5*time.Millisecond))
				if err := l.Release(context.Background()); err != nil {
					panic(err)
				}
				p.jitter(rng)
			}
		})
	}
	return c
}
