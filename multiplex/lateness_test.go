package multiplex

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// newLookout returns a lookout without a Mux, which has a round to look for.
func newLookout() *lookout {
	l := new(lookout)
	l.init(5, math.MaxInt64, func() {})
	l.rounds = []*round{new(round)}
	return l
}

// The goal: nodes owe nothing for the time in which the process was late, also before its timer
// says so.
func TestLateness_CountsFromATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		start, l := time.Now(), newLookout()
		after := func(begin, d time.Duration) time.Duration { // when so much time is over
			time.Sleep(time.Until(start.Add(d)))
			return l.late(start.Add(begin))
		}
		require.Zero(t, after(0, 1000*ms), "the timer is not set")
		l.looked(100 * ms)
		require.Zero(t, after(0, 1104*ms), "an ordinary delay")
		require.Equal(t, 30*ms, after(0, 1130*ms), "the timer is late")
		require.Equal(t, 50*ms, after(0, 1150*ms))
		l.looked(0) // it fires
		require.Equal(t, 50*ms, after(0, 1150*ms))
		require.Equal(t, 20*ms, after(1130*ms, 1150*ms))
		require.Equal(t, 70*ms, after(0, 1170*ms), "the process stopped before it set the timer")
		l.looked(100 * ms)
		require.Equal(t, 70*ms, after(0, 1270*ms))
		l.rounds = nil
		l.looked(100 * ms)
		require.Equal(t, 70*ms, after(0, time.Minute), "nobody waits")
		require.Zero(t, after(1170*ms, time.Minute))
	})
}

// The goal: a process that is late at each look still gives a node up.
func TestLateness_EndsAlsoIfEachLookIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 80 * time.Millisecond
		start, l, looks := time.Now(), newLookout(), 0
		for ; time.Since(start)-l.late(start) < timeout; looks++ {
			l.looked(timeout / looksOfNode)
			time.Sleep(time.Second)
			l.looked(0)
		}
		require.Equal(t, looksOfNode, looks)
	})
}

// The goal: a process that is late for long is late for all of that time, however often the lookout
// notes it.
func TestLateness_TimesThatTouchAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, l := time.Now(), newLookout()
		for range 3 * len(l.times) {
			l.looked(0)
			time.Sleep(2 * lateAfter)
		}
		require.Equal(t, time.Since(start), l.late(start))
	})
}

// The goal: what the lookout found is forgotten when no round is left. The next attempt does not
// fail for a node that hung long ago.
func TestLookout_ForgetsWhatHungWithoutRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLookout()
		require.True(t, l.noteHanging(1, true, time.Now()))
		require.False(t, l.noteHanging(1, true, time.Now()))
		l.looked(time.Second)
		require.NotNil(t, l.hanging[1].Load())
		l.rounds = nil
		l.looked(time.Second)
		require.Nil(t, l.hanging[1].Load())
		l.timer.Stop()
	})
}

// The goal: the process is late too if its timers are in time, but its goroutines wait for long.
func TestLateness_GoroutinesThatWait(t *testing.T) {
	m, _, stop := simulated(1, 1, 0)
	defer stop()
	var begun, busy sync.WaitGroup
	defer busy.Wait()
	var over atomic.Bool
	defer over.Store(true)
	goroutines := 20 * runtime.GOMAXPROCS(0)
	begun.Add(goroutines)
	for range goroutines {
		busy.Go(func() {
			for begun.Done(); !over.Load(); {
				for end := time.Now().Add(time.Millisecond); time.Now().Before(end); {
				}
				runtime.Gosched()
			}
		})
	}
	begun.Wait()
	start := time.Now()
	m.look()
	require.Greater(t, m.lookout.late(start), time.Duration(0))
}

// The goal: a slow node reads a round as long as the vote of the node can decide one attempt of it,
// also if the others are decided.
func TestLookout_ASlowNodeReadsWhatIsUndecided(t *testing.T) {
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
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		resume()
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
func TestLookout_AReleaseWaitsForSlowNodes(t *testing.T) {
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
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		for _, answer := range resume {
			answer()
		}
		require.NoError(t, <-outcome)
		m.Release(before.claim, 1)
		nothingLeft(t, m, stores)
	})
}

// The goal: the callers of an old round are woken once for its age, and not by each look.
func TestLookout_AnOldRoundWakesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		goOn := stopped(m, 0)
		s := &m.Acquire(claim("k", "t"), time.Minute, 1).round.State
		young := s.nextChange()
		time.Sleep(2 * m.cfg.NodeTimeout)
		<-young
		require.True(t, s.eager.Load())
		old := s.nextChange()
		time.Sleep(10 * m.cfg.NodeTimeout)
		select {
		case <-old:
			t.Error("it was woken again")
		default:
		}
		goOn()
		time.Sleep(time.Second)
	})
}
