package calls

import (
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/line"
	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// contending returns a call that waits for keys of which another process has the first one. Its own
// timers are too long to help it.
func contending(t *testing.T, keys ...string) (s *waitingCall) {
	t.Helper()
	nodes := servertest.Start(t, 3)
	heldByAnother(t, nodes, keys[0])
	return contendingOn(t, nodes, keys...)
}

func heldByAnother(t *testing.T, nodes *lockpipetest.Nodes, key string) {
	t.Helper()
	for i := range nodes.Len() {
		_, err := nodes.Do(i, "SET", key, "another's")
		require.NoError(t, err)
	}
}

func contendingOn(t *testing.T, nodes *lockpipetest.Nodes, keys ...string) (s *waitingCall) {
	t.Helper()
	c := connectedTo(t, nodes)
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

// runsWith returns another call of the process, which runs with a key of the call.
func runsWith(t *testing.T, s *waitingCall, key string) *keyqueue.Call {
	t.Helper()
	other := &keyqueue.Call{Caller: s}
	runs, ok := s.calls.locker.Queue.Enter(other, []string{key}, locker.MaxPending)
	require.True(t, runs && ok)
	return other
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
	require.True(t, s.calls.locker.RetryTurn(s.turn, s.keys))
	require.False(t, s.retryTurn())
	_, delay, f := s.advance()
	require.Nil(t, f)
	require.Equal(t, line.Forever, delay, "it does not know yet what it is handed")
	s.turn.Begin(nil)
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
	require.True(t, s.calls.locker.RetryTurn(s.turn, s.keys))
	go s.turn.Begin(nil)
	for s.news.Load() == 0 {
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
	other := runsWith(t, s, "y")
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

// The goal: a call that is notified of a release while other calls of the process have its keys
// leaves its turn to the queue. It does not take the place of the call that contends for one of
// these keys: the node's answer about the line wakes the contending call.
func TestTurn_AReleaseOfWhatOthersHaveIsForTheQueue(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	heldByAnother(t, nodes, "x")
	s := contendingOn(t, nodes, "y", "x")
	k, woken := s.calls.locker, make(chan struct{}, 1)
	other := runsWith(t, s, "y")
	heldByAnother(t, nodes, "y")
	k.Lines.Ask("y", k.Mux.Arbiter("y", 0, 0), func() { wakeUp(woken) }) // as other does
	<-woken
	k.Lines.Leave("x") // so that it asks about the line for y, if anything
	s.Notify(keyqueue.Released)
	s.sleep(nil)
	_, delay, f := s.advance()
	require.Nil(t, f)
	require.Equal(t, line.Forever, delay)
	isOthers := false
	for range 3 { // a late answer about x wakes the call once
		k.Lines.Renew("y")
		select {
		case <-woken:
			isOthers = true
		case <-s.wake:
		}
	}
	require.True(t, isOthers, "it has taken the place of the other call")
	k.Queue.Leave(other, time.Now())
	s.leave(nil)
}
