package sim

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
