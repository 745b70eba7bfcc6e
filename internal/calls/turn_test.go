package calls

import (
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// contending returns a call that waits for keys of which another process has the first one. Its own
// timers are too long to help it.
func contending(t *testing.T, keys ...string) (s *waitingCall) {
	t.Helper()
	nodes := servertest.Start(t, 3)
	c := connectedTo(t, nodes)
	for i := range nodes.Len() {
		_, err := nodes.Do(i, "SET", keys[0], "another's")
		require.NoError(t, err)
	}
	o := options()
	o.MinDelay, o.MaxDelay = time.Hour, time.Hour
	s = newWaitingCall(t.Context(), c, keys, o)
	require.True(t, s.enter())
	_, delay, f := s.advance()
	require.Nil(t, f)
	require.Positive(t, delay)
	require.Equal(t, asleep, s.actor.Load())
	return s
}

// ends has a call end whose attempt is under way.
func ends(s *waitingCall) {
	s.pending.Wait(s.ctx)
	s.leave(nil)
}

// The goal: a call that is awake when the process releases its key does not sleep after that. It
// asks at once, and does not wait for its next timer.
func TestTurn_AReleaseIsNotMissedByACallThatIsAwake(t *testing.T) {
	t.Parallel()
	s := contending(t, "x")
	require.True(t, s.awake())
	select {
	case <-s.wake:
	default:
	}
	s.calls.locker.Queue.Released(s.keys)
	require.Len(t, s.wake, 1)
	require.False(t, s.sleep(), "there is something to do")
	require.Equal(t, itself, s.actor.Load())
	require.Zero(t, s.next())
	require.True(t, s.pending.IsPending())
	ends(s)
}

// The goal: the release begins the turn of a call that sleeps.
func TestTurn_AReleaseBeginsTheTurnOfACallThatSleeps(t *testing.T) {
	t.Parallel()
	s := contending(t, "x")
	s.calls.locker.Queue.Released(s.keys)
	require.Len(t, s.wake, 1)
	require.Equal(t, itself, s.actor.Load())
	require.True(t, s.pending.IsPending())
	ends(s)
}

// The goal: a call that tries again while another call of the process has one of its keys leaves
// the next step to the queue. When the other call passes the key on, it asks at once.
func TestTurn_ACallThatRetriesInVainLeavesItsTurnToTheQueue(t *testing.T) {
	t.Parallel()
	s := contending(t, "x", "y")
	queue := &s.calls.locker.Queue
	other := &keyqueue.Call{Caller: s}
	runs, ok := queue.Enter(other, []string{"y"}, locker.MaxPending)
	require.True(t, runs && ok)
	now := time.Now()
	queue.Hold(other, now.Add(time.Hour))
	require.True(t, s.awake())
	require.False(t, s.retryTurn())
	require.False(t, s.awake(), "its own goroutine may only give up")
	require.False(t, s.pending.IsPending())
	queue.Leave(other, now.Add(time.Hour)) // so it is not time to yield, however slow the test is
	require.Len(t, s.wake, 1)
	require.Equal(t, itself, s.actor.Load())
	require.True(t, s.pending.IsPending())
	ends(s)
}
