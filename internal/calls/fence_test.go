package calls

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/holders"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/internal/stats"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/lockpipe/lockpipe/multiplex"
	"github.com/stretchr/testify/require"
)

// seen has all nodes remember a fence of x.
func seen(t *testing.T, nodes *lockpipetest.Nodes, number int64) {
	for i := range nodes.URLs() {
		_, err := nodes.Do(i, "ZADD", "lockpipe:fences", strconv.FormatInt(number, 10),
			strconv.Itoa(int(ids.FenceMember("x"))))
		require.NoError(t, err)
	}
}

// The goal: a fence that was too low is no attempt that counts, and no reason for a delay.
func TestFence_AStaleAnswerIsNoFailure(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := connectedTo(t, nodes)
	ahead := time.Now().Add(time.Hour).UnixMicro()
	seen(t, nodes, ahead)
	o := options()
	o.Fencing, o.MinDelay, o.MaxDelay = true, time.Hour, time.Hour
	s := newWaitingCall(t.Context(), c, []string{"x"}, o)
	require.True(t, s.enter())
	s.recordFailure(&locker.Failure{Votes: multiplex.Outcome{
		Result: multiplex.Held, Keys: []string{"x"}, Nodes: []string{"one", "two"},
	}})
	s.policy.Begin(false, false)

	l, delay, f := s.advance()
	require.Nil(t, f)
	require.Zero(t, delay)
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
	nodes := servertest.Start(t, 3)
	c := connectedTo(t, nodes)
	seen(t, nodes, time.Now().Add(time.Hour).UnixMicro())
	o := options()
	o.Fencing, o.Start = true, time.Now()
	ctx := overWhen{context.Background(), func() (answered bool) {
		c.locker.Outcomes.Rows(func(what, _ string, _ stats.Outcome, n uint64, _ stats.Snapshot) {
			answered = answered || what == "attempt" && n > 0
		})
		return answered
	}}
	s := newWaitingCall(ctx, c, []string{"x"}, o)
	require.True(t, s.enter())
	l, f := s.wait()
	require.Nil(t, l)
	require.ErrorIs(t, f.End, context.Canceled)
	require.Equal(t, multiplex.NoQuorum, f.Votes.Result)
	require.True(t, slices.ContainsFunc(f.Votes.NoVotes, func(n holders.Node) bool {
		return strings.Contains(n.Err.Error(), "was granted before")
	}), "the last node may not have answered yet: %v", f.Votes.NoVotes)
}
