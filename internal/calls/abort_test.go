package calls

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: a call that ends while it waits in a line, before its first attempt, blames no other
// call of its process: there was none.
func TestAbort_ACallThatWaitsInLineBlamesNobody(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	c := connectedTo(t, nodes)
	rival := fmt.Sprint(time.Now().Add(time.Second).UnixMilli(), ":rival")
	_, err := nodes.Do(0, "ZADD", ids.LineKey+"x", "1", rival)
	require.NoError(t, err)
	c.locker.Lines.Ask("x", c.locker.Mux.Arbiter("x", 0, 0), func() {})
	require.Eventually(t, func() bool { return c.hasContention([]string{"x"}) }, 20*time.Second,
		time.Millisecond)
	acquire := func() *locker.Failure {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		l, f := c.Acquire(ctx, []string{"x"}, options())
		require.Nil(t, l)
		return f
	}
	f := acquire()
	require.True(t, !f.IsHeld() || len(f.Votes.Nodes) > 0, "it names who is before it, if anybody")
	require.Equal(t, context.DeadlineExceeded, f.End)

	waits := newWaitingCall(t.Context(), c, []string{"x"}, options())
	require.True(t, waits.enter())
	defer waits.leave(nil)
	f = acquire()
	require.True(t, f.IsHeld(), "this one was behind another of its process")
	require.Empty(t, f.Votes.Nodes)
}

// The goal: such a call names who has the key, if a node has already answered that.
func TestAbort_ACallThatMadeNoAttemptNamesTheHolderThatItSaw(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c, rival := connectedTo(t, nodes), connectedTo(t, nodes)
	_, f := rival.Acquire(t.Context(), []string{"x"}, options())
	require.Nil(t, f)
	arbiter := arbiterOf(c, "x")
	require.Eventually(t, func() bool { // a quorum may be without it
		n, err := nodes.Do(arbiter, "EXISTS", "x")
		return err == nil && n == int64(1)
	}, 20*time.Second, time.Millisecond)
	o := options()
	o.MaxDelay = time.Hour // until it asks all nodes
	ctx, cancel := context.WithCancel(t.Context())
	s := newWaitingCall(ctx, c, []string{"x"}, o)
	require.True(t, s.enter())
	defer s.leave(nil)
	s.policy.Begin(true, true)
	for !s.holder().Known {
		_, delay, f := s.advance()
		require.Nil(t, f)
		s.sleep(time.After(delay))
	}
	cancel()
	_, _, f = s.advance()
	require.True(t, f.IsHeld())
	require.Equal(t, []string{"x"}, f.Votes.Keys)
	require.Len(t, f.Votes.Nodes, 1)
	require.Positive(t, f.RetryAfter)
	require.Equal(t, context.Canceled, f.End)
}
