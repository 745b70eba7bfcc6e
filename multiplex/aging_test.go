package multiplex

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/stretchr/testify/require"
)

// The goal: a slow node reads a round as long as the vote of the node can decide one attempt of it,
// also if the others are decided. A round of which nothing is open it misses.
func TestAging_ASlowNodeReadsWhatIsUndecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		m.cfg.NodeTimeout = 10 * time.Second
		stores[0].hold("k", "another")
		resume := hang(m.nodes[2])
		var decided []*Attempt // the second one is in a round that node 2 has not read
		for _, key := range []string{"first", "second"} {
			a := m.Acquire(claim(key, "t"), time.Minute, 1)
			require.NoError(t, wait(a, t.Context()))
			decided = append(decided, a)
		}
		synctest.Wait()
		a := m.Acquire(claim("k", "t"), time.Minute, 1)
		outcome := make(chan error, 1)
		go func() { outcome <- wait(a, t.Context()) }()
		time.Sleep(3 * forgetAfter)
		synctest.Wait()
		resume()
		require.NotZero(t, decided[1].place.Round.State.missed.Load())
		require.NoError(t, <-outcome, "the vote of node 2 decides")
		stores[0].free("k")
		for _, a := range append(decided, a) {
			m.Release(a.claim, 1)
		}
		nothingLeft(t, m, stores)
	})
}

// The goal: a release waits for slow nodes if it has no quorum without them. It does not fail long
// before NodeTimeout.
func TestAging_AReleaseWaitsForSlowNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		m.cfg.NodeTimeout = 10 * time.Second
		held := m.Acquire(claim("k", "t"), time.Minute, 1)
		require.NoError(t, wait(held, t.Context()))
		synctest.Wait()
		resume := []func(){hang(m.nodes[1]), hang(m.nodes[2])}
		before := m.Acquire(claim("before", "t"), time.Minute, 1)
		synctest.Wait() // nodes 1 and 2 owe the answer, and do not read the next round
		release := m.Release(held.claim, 1)
		outcome := make(chan error, 1)
		go func() { outcome <- wait(release, t.Context()) }()
		time.Sleep(3 * forgetAfter)
		synctest.Wait()
		for _, answer := range resume {
			answer()
		}
		require.NoError(t, <-outcome)
		require.Zero(t, release.place.Round.State.missed.Load())
		m.Release(before.claim, 1)
		nothingLeft(t, m, stores)
	})
}

// The goal: a slow node misses a round also if nobody waits for its attempts any more, and so
// nobody decides them: the caller has released them before a quorum answered.
func TestAging_ASlowNodeMissesWhatWasReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		defer stop()
		m.cfg.NodeTimeout = 10 * time.Second
		resume := hang(m.nodes[2])
		first := m.Acquire(claim("first", "t"), time.Minute, 1)
		require.NoError(t, wait(first, t.Context()))
		synctest.Wait()
		others := []func(){hang(m.nodes[0]), hang(m.nodes[1])}
		a := m.Acquire(claim("k", "t"), time.Minute, 1)
		synctest.Wait() // node 2 has not read it, and the others do not answer yet
		m.Release(a.claim, 1)
		for _, answer := range others {
			answer()
		}
		time.Sleep(3 * forgetAfter)
		synctest.Wait()
		require.Equal(t, uint64(quorum.Node(2)), a.place.Round.State.missed.Load())
		resume()
		m.Release(first.claim, 1)
		nothingLeft(t, m, stores)
	})
}
