package calls

import (
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/line"
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
	for !s.contending {
		_, _, f := s.advance()
		require.Nil(t, f)
	}
	return s
}

// attempts returns how many attempts the client of the call has sent.
func attempts(s *waitingCall) uint64 {
	sent, _ := s.calls.locker.Mux.Muxes[0].Attempts()
	return sent
}

// The goal: a call that the process releases its key for asks at once, also if it was just about to
// sleep. It does not wait for its next timer.
func TestTurn_AReleaseIsNotMissed(t *testing.T) {
	t.Parallel()
	s := contending(t, "x")
	before := attempts(s)
	s.calls.locker.Queue.Released(s.keys)
	s.sleep(nil)
	_, _, f := s.advance()
	require.Nil(t, f)
	require.Equal(t, before+1, attempts(s))
	s.leave(nil)
}

// The goal: a call whose turn another goroutine takes gets it, also if it is about to take its turn
// itself.
func TestTurn_AnotherGoroutineTakesIt(t *testing.T) {
	t.Parallel()
	s := contending(t, "x")
	before := attempts(s)
	require.True(t, s.TakeTurn())
	require.False(t, s.retryTurn())
	_, delay, f := s.advance()
	require.Nil(t, f)
	require.Equal(t, line.Forever, delay, "it does not know yet what it is handed")
	s.Begin(nil)
	s.sleep(nil)
	_, _, f = s.advance()
	require.Nil(t, f)
	require.Equal(t, before+1, attempts(s))
	s.leave(nil)
}

// The goal: a call that ends while another goroutine begins its turn takes that turn first, with
// what it is handed.
func TestTurn_ACallThatEndsTakesTheTurnThatBegins(t *testing.T) {
	t.Parallel()
	s := contending(t, "x")
	require.True(t, s.TakeTurn())
	go s.Begin(nil)
	for !s.begun.Load() {
		require.Nil(t, s.end(errFailed), "its turn is being begun")
	}
	require.Nil(t, s.begin())
	require.ErrorIs(t, s.end(errFailed).End, errFailed)
	s.leave(nil)
	require.False(t, s.calls.locker.Queue.Knows(s.keys))
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
	before := attempts(s)
	require.False(t, s.retryTurn())
	_, delay, f := s.advance()
	require.Nil(t, f)
	require.Equal(t, line.Forever, delay, "it may only give up")
	queue.Leave(other, now.Add(time.Hour)) // so it is not time to yield, however slow the test is
	s.sleep(nil)
	_, _, f = s.advance()
	require.Nil(t, f)
	require.Equal(t, before+1, attempts(s))
	s.leave(nil)
}
