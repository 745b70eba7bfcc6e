package lockpipe

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/outcomes"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// The goal: a call without fencing allocates no more than a library without fences would.
func TestFence_ALeaseWithoutOneTakesTwoPiecesOfMemory(t *testing.T) {
	c, err := New(Config{Nodes: []string{"node:1"}, Owner: "web-3:4711", Dial: hangingDial})
	require.NoError(t, err)
	defer func() { _ = c.Close(t.Context()) }()
	keys := []string{"k"}
	// What clients of earlier tests still allocate counts too. In so many runs it is no piece each.
	const runs = 20_000
	require.LessOrEqual(t, testing.AllocsPerRun(runs, func() { c.newLease(keys, 0, 0) }), 2.0)
}

// seen has all nodes remember a fence of x.
func seen(t *testing.T, nodes *lockpipetest.Nodes, number int64) {
	for i := range nodes.URLs() {
		_, err := nodes.Do(i, "SET", companionOfX, strconv.FormatInt(number, 10))
		require.NoError(t, err)
	}
}

const companionOfX = "lockpipe:fence:x"

// The goal: a fence that was too low is no lost race, no attempt that counts, and no reason for a
// delay or another arbiter. But the arbiter may still have what it granted then, and alone
// it must not refuse the next attempt for that.
func TestFence_AStaleAnswerIsNoLostRace(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connectedTo(t, nodes)
	ahead := time.Now().Add(time.Hour).UnixMicro()
	seen(t, nodes, ahead)
	keys, o, err := c.validateCall(context.Background(), outcomes.Wait, []string{"x"},
		[]Option{WithFencing(), WithRetryDelay(time.Hour, time.Hour)})
	require.NoError(t, err)
	s := newWaitingCall(t.Context(), c, keys, o, func() {})
	require.True(t, s.enter())
	s.recordFailure(&HeldError{Keys: []string{"x"}, Nodes: []string{"one", "two"}}, true)
	s.policy.Begin(time.Time{})

	require.Zero(t, s.next())
	stale := s.pending
	require.False(t, stale.askedAll, "the arbiter is asked first")
	outcome := stale.attempt.Wait(t.Context(), time.Time{})
	before := s.policy
	l, err := s.attemptDone(t.Context(), stale, attemptError(outcome))
	require.Nil(t, l)
	require.NoError(t, err)
	before.Retry()
	before.Arbiter, s.policy.Arbiter = nil, nil // functions can't be compared
	require.Equal(t, before, s.policy)
	s.policy.Arbiter = c.arbiter

	g := fenceRetry{}
	for range 2 {
		for range maxFenceRetries {
			again, wait := g.next(stale.attempt)
			require.True(t, again && !wait)
		}
		again, _ := g.next(stale.attempt)
		require.False(t, again, "a call does not hurry for ever after clocks that run faster")
	}
	require.Equal(t, ahead, g.floor)
	g.floor = ahead + 1
	_, _ = g.next(stale.attempt)
	require.Equal(t, ahead+1, g.floor, "and never goes back")

	require.Zero(t, s.next())
	require.True(t, s.pending.askedAll)
	outcome = s.pending.attempt.Wait(t.Context(), time.Time{})
	l, err = s.attemptDone(t.Context(), s.pending, attemptError(outcome))
	require.NoError(t, err)
	require.Greater(t, l.Fence(), ahead)
	s.leave(l)
	require.NoError(t, l.Release(t.Context()))
}

// overWhen is a context that ends when something is so.
type overWhen struct {
	context.Context
	over func() bool
}

func (c overWhen) Err() error {
	if c.over() {
		return context.Canceled
	}
	return nil
}

// The goal: if a call ends after an answer that its fence is too low, that is the reason it gives,
// and not that the keys were held.
func TestFence_ACallThatEndsAfterAStaleAnswerWasNotHeld(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connectedTo(t, nodes)
	seen(t, nodes, time.Now().Add(time.Hour).UnixMicro())
	ctx := overWhen{context.Background(), func() bool {
		c.asyncs.mu.Lock()
		defer c.asyncs.mu.Unlock()
		for a := range c.asyncs.pending {
			return a.call.(*waitingCall).fenceRetry.attempts > 0
		}
		return false
	}}
	done := make(chan error, 1)
	require.NoError(t, c.AcquireAsync(ctx, []string{"x"}, func(_ *Lease, err error) { done <- err },
		WithFencing()))
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, ErrNoQuorum)
	require.NotErrorIs(t, err, ErrHeld)
	require.ErrorContains(t, err, "was granted before")
}
