package sim

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: processes that want the same key all the time get it in turn: none takes it again and
// again while others wait, few of their attempts are in vain, and their votes are hardly ever
// split. In virtual time, because a machine that has other things to do would try more often in
// vain, and serve whom it likes.
func TestProcessesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const processes, turns = 8, 400
		r := newRun(1, &Plan{
			clients: processes, timeout: time.Second,
			latency: 200 * time.Microsecond, spike: 1,
		})
		for _, p := range r.processes {
			p.begin()
		}
		time.Sleep(recovering) // all are connected
		shares := make([]int, processes)
		taken := 0
		var all sync.WaitGroup
		for i, p := range r.processes {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			all.Go(func() {
				for {
					l, err := p.current().Acquire(t.Context(), "hot")
					if err != nil {
						t.Error(err)
						return
					}
					shares[i]++ // and taken is guarded by the key
					taken++
					over := taken >= turns
					if err := l.Release(t.Context()); err != nil {
						t.Error(err)
					}
					if over {
						return
					}
					p.react(rng)
				}
			})
		}
		all.Wait()
		var attempts, splitVotes uint64
		for _, p := range r.processes {
			attempts += p.current().Stats().Attempts
			splitVotes += p.current().Stats().SplitVotes
		}
		t.Logf("shares %v, %d attempts, %d split votes in %v", shares, attempts, splitVotes,
			time.Since(r.history.start)-recovering)
		r.finish()
		require.Empty(t, r.history.violations)
		for _, share := range shares {
			require.Greater(t, share, turns/processes/3)
		}
		require.Less(t, attempts, uint64(3*turns))
		require.Less(t, splitVotes, uint64(turns/10))
	})
}
