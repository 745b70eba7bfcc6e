package multiplex

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/stretchr/testify/require"
)

// The goal: the three branches of a caller that leaves. Not sent yet: never sent.
func TestWait_LeavingBeforeSendingLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(1, 1, 0)
		blocker, c := new(Claim), new(Claim)
		blocker.Init("", []string{"a"}, "blocker", "")
		c.Init("", []string{"b"}, "token", "")
		m.Acquire(blocker, time.Minute, 1)
		synctest.Wait()
		a := m.Acquire(c, time.Minute, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, wait(a, ctx), context.Canceled)
		require.Zero(t, unsettled(c), "nothing is under way, and nothing can be there")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, map[string]string{"a": "blocker"}, stores[0].left())
		stop()
	})
}

// Answered first: the answer is returned, although ctx has ended.
func TestWait_ReturnsAnAnswerThatCameFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		c := new(Claim)
		c.Init("", []string{"k"}, "token", "")
		a := m.Acquire(c, time.Minute, 1)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, wait(a, ctx))
		stop()
	})
}

// Sent and the caller gone: the late grant is released.
func TestWait_ALateGrantIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stores, stop := simulated(3, 1, 0)
		c := new(Claim)
		c.Init("", []string{"k"}, "token", "")
		a := m.Acquire(c, time.Minute, 1)
		synctest.Wait() // the flushes are under way
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := wait(a, ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, ErrNoQuorum)
		time.Sleep(time.Second)
		synctest.Wait()
		for _, s := range stores {
			require.Empty(t, s.left())
		}
		stop()
	})
}

// The goal: an attempt that this process has not sent yet does not fail, as long as it is of any
// use, while the nodes owe nothing. Otherwise thousands of calls that come at once fail and come
// again, and nothing else gets a turn.
func TestWait_NoNodeOwesWhatWasNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		c := claim("k", "t")
		unsent := func(maxAge time.Duration) *Attempt {
			a := m.newAttempt(c, node.Acquire, time.Minute, m.cfg.NodeTimeout, maxAge)
			a.asked, a.round = m.all(), new(round)
			a.round.State.eager.Store(true)
			return a
		}
		a, start := unsent(time.Second), time.Now()
		require.ErrorIs(t, wait(a, t.Context()), ErrNoQuorum)
		require.Equal(t, time.Second, time.Since(start))

		a = unsent(time.Minute)
		outcome := make(chan error, 1)
		go func() { outcome <- wait(a, t.Context()) }()
		time.Sleep(100 * m.cfg.NodeTimeout)
		synctest.Wait()
		require.Empty(t, outcome)
		a.round.State.ok.Store(uint64(m.all()))
		a.round.State.wake()
		require.NoError(t, <-outcome)
	})
}
