package calls

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// lineTest is clients that want one key. Their own delays are too long to help them.
type lineTest struct {
	t       *testing.T
	nodes   *lockpipetest.Nodes
	arbiter int
	order   chan string // the names of the calls that were granted, in this order
}

func newLineTest(t *testing.T) (*lineTest, *Calls, *locker.Lease) {
	t.Helper()
	nodes := servertest.Start(t, 3)
	rival := connectedTo(t, nodes)
	held, f := rival.Acquire(t.Context(), []string{"x"}, patient())
	require.Nil(t, f)
	return &lineTest{
		t: t, nodes: nodes, arbiter: arbiterOf(rival, "x"),
		order: make(chan string, 100),
	}, rival, held
}

// patient are the options of a call that makes no attempt unless a node says something.
func patient() *locker.Options {
	o := options()
	o.MinDelay, o.MaxDelay = time.Hour, time.Hour
	return o
}

// do has a server execute a command.
func (l *lineTest) do(node int, command ...string) any {
	l.t.Helper()
	reply, err := l.nodes.Do(node, command...)
	require.NoError(l.t, err)
	return reply
}

// length returns how many clients are in the line for a key.
func (l *lineTest) length(key string) int64 {
	n, _ := l.do(l.arbiter, "ZCARD", ids.LineKey+key).(int64)
	return n
}

// awaitLength waits until so many clients are in the line for x.
func (l *lineTest) awaitLength(n int64) {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.length("x") == n }, 20*time.Second,
		time.Millisecond, "%d in line", n)
}

// wants has a call wait for the keys, and release them when it has them.
func (l *lineTest) wants(ctx context.Context, c *Calls, name string, keys ...string) {
	l.t.Helper()
	f := c.AcquireAsync(ctx, keys, patient(), func(lease *locker.Lease, f *locker.Failure) {
		if f != nil {
			l.order <- name + " fails"
			return
		}
		l.order <- name
		_ = lease.Release(context.Background())
	})
	require.Nil(l.t, f)
}

// next returns the name of the call that was granted next.
func (l *lineTest) next() string {
	l.t.Helper()
	select {
	case name := <-l.order:
		return name
	case <-time.After(20 * time.Second):
		require.Fail(l.t, "nobody gets the key")
		return ""
	}
}

// The goal: clients get a key in the order in which they came.
func TestLine_FirstComeFirstServed(t *testing.T) {
	t.Parallel()
	l, _, held := newLineTest(t)
	for i := range 5 {
		l.wants(t.Context(), connectedTo(t, l.nodes), strconv.Itoa(i), "x")
		l.awaitLength(int64(i + 1))
	}
	require.NoError(t, held.Release(t.Context()))
	for i := range 5 {
		require.Equal(t, strconv.Itoa(i), l.next())
	}
	l.awaitLength(0)
}

// The goal: who gives up learns how many were before it.
func TestLine_AFailureSaysHowManyAreAhead(t *testing.T) {
	t.Parallel()
	l, _, held := newLineTest(t)
	for i := range 2 {
		l.wants(t.Context(), connectedTo(t, l.nodes), strconv.Itoa(i), "x")
		l.awaitLength(int64(i + 1))
	}
	c := connectedTo(t, l.nodes)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan *locker.Failure, 1)
	go func() {
		_, f := c.Acquire(ctx, []string{"x"}, patient())
		failed <- f
	}()
	l.awaitLength(3)
	require.Eventually(t, func() bool {
		p, _ := c.locker.Lines.State("x", c.locker.Mux.Arbiter("x", 0, 0))
		return p.Known
	}, 20*time.Second, time.Millisecond)
	cancel()
	f := <-failed
	require.True(t, f.IsHeld())
	require.Equal(t, 2, f.Ahead)
	require.NoError(t, held.Release(t.Context()))
	require.ElementsMatch(t, []string{"0", "1"}, []string{l.next(), l.next()})
}

// The goal: who gives up leaves the line, wherever it is in it.
func TestLine_WhoGivesUpLeaves(t *testing.T) {
	t.Parallel()
	l, _, held := newLineTest(t)
	var cancels []context.CancelFunc
	for i := range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cancels = append(cancels, cancel)
		l.wants(ctx, connectedTo(t, l.nodes), strconv.Itoa(i), "x")
		l.awaitLength(int64(i + 1))
	}
	for _, i := range []int{0, 2} {
		cancels[i]()
		require.Equal(t, fmt.Sprint(i, " fails"), l.next())
	}
	l.awaitLength(2)
	require.NoError(t, held.Release(t.Context()))
	// The last one was told that the one before it has left, and may be quicker once.
	require.ElementsMatch(t, []string{"1", "3"}, []string{l.next(), l.next()})
	l.awaitLength(0)
}

// The goal: clients that died hold nobody up for ever, although nothing else helps those behind.
func TestLine_DeadClients(t *testing.T) {
	t.Parallel()
	l, _, held := newLineTest(t)
	l.wants(t.Context(), connectedTo(t, l.nodes), "alive", "x")
	l.awaitLength(1)
	now, _ := l.do(l.arbiter, "TIME").([]any)
	require.Len(t, now, 2)
	seconds, _ := now[0].(string)
	for i := range 2 {
		place := fmt.Sprint(seconds, "999:dead", i)
		l.do(l.arbiter, "ZADD", ids.LineKey+"x", strconv.Itoa(1+i), place)
	}
	require.NoError(t, held.Release(t.Context()))
	require.Equal(t, "alive", l.next())
}

// The goal: a process has its turn until all of its calls have had the key that waited when it
// passed the key on first. What comes later is behind other processes.
func TestLine_AProcessServesThoseThatWait(t *testing.T) {
	t.Parallel()
	l, _, held := newLineTest(t)
	first, second := connectedTo(t, l.nodes), connectedTo(t, l.nodes)
	leases := make(chan *locker.Lease, 2)
	takes := func() {
		f := first.AcquireAsync(t.Context(), []string{"x"}, patient(),
			func(lease *locker.Lease, _ *locker.Failure) { leases <- lease })
		require.Nil(t, f)
	}
	takes()
	l.awaitLength(1)
	takes()
	l.wants(t.Context(), second, "there", "x")
	l.awaitLength(2)
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, (<-leases).Release(t.Context()))
	lease := <-leases // the other one may have had it in between, if passTime was over
	l.wants(t.Context(), first, "late", "x")
	require.NoError(t, lease.Release(t.Context()))
	require.Equal(t, "there", l.next())
	require.Equal(t, "late", l.next())
}

// The goal: a client that takes and deletes the key without any line holds nobody up who waits.
func TestLine_ForeignClients(t *testing.T) {
	t.Parallel()
	l, _, held := newLineTest(t)
	l.wants(t.Context(), connectedTo(t, l.nodes), "a", "x")
	l.wants(t.Context(), connectedTo(t, l.nodes), "b", "x")
	l.awaitLength(2)
	for i := range 3 {
		l.do(i, "SET", "x", "foreign")
	}
	_ = held.Release(t.Context()) // it was lost
	for i := range 3 {
		l.do(i, "DEL", "x")
	}
	require.ElementsMatch(t, []string{"a", "b"}, []string{l.next(), l.next()})
}

// The goal: a server that has forgotten the scripts gets them again.
func TestLine_ScriptsAreLoadedAgain(t *testing.T) {
	t.Parallel()
	l, _, held := newLineTest(t)
	for i := range 3 {
		l.do(i, "SCRIPT", "FLUSH")
	}
	l.wants(t.Context(), connectedTo(t, l.nodes), "a", "x")
	l.awaitLength(1)
	for i := range 3 {
		l.do(i, "SCRIPT", "FLUSH")
	}
	require.NoError(t, held.Release(t.Context()))
	require.Equal(t, "a", l.next())
	l.awaitLength(0)
}

// The goal: a call that waits for another call of its process keeps no place in a line.
func TestLine_ACallThatWaitsInItsProcessLeaves(t *testing.T) {
	t.Parallel()
	l, _, held := newLineTest(t)
	c := connectedTo(t, l.nodes)
	l.wants(t.Context(), c, "set", "x", "y")
	l.awaitLength(1)
	// Two calls take y: the second waits in the queue, so its lease is one of the queue.
	y, f := c.Acquire(t.Context(), []string{"y"}, patient())
	require.Nil(t, f)
	leases := make(chan *locker.Lease, 1)
	f = c.AcquireAsync(t.Context(), []string{"y"}, patient(),
		func(lease *locker.Lease, _ *locker.Failure) { leases <- lease })
	require.Nil(t, f)
	require.NoError(t, y.Release(t.Context()))
	y = <-leases
	require.NotNil(t, y)
	l.wants(t.Context(), connectedTo(t, l.nodes), "other", "x")
	l.awaitLength(2)
	require.NoError(t, held.Release(t.Context()))
	require.Equal(t, "other", l.next())
	l.awaitLength(0)
	require.NoError(t, y.Release(t.Context()))
	require.Equal(t, "set", l.next())
}

// The goal: a set that waits for one of its keys keeps no place for another, also if a call before
// it got that place.
func TestLine_ASetLeavesTheLinesForItsOtherKeys(t *testing.T) {
	t.Parallel()
	l, _, held := newLineTest(t)
	c := connectedTo(t, l.nodes)
	l.wants(t.Context(), c, "one", "x")
	l.awaitLength(1)
	for i := range 3 {
		l.do(i, "SET", "y", "another's")
	}
	l.wants(t.Context(), c, "set", "x", "y")
	require.NoError(t, held.Release(t.Context()))
	require.Equal(t, "one", l.next())
	require.Eventually(t, func() bool {
		p, _ := c.locker.Lines.State("x", c.locker.Mux.Arbiter("x", 0, 0))
		return c.locker.Queue.Uses("y") && !c.locker.Queue.Uses("x") && p.Ticket == 0
	}, 20*time.Second, time.Millisecond)
	for i := range 3 {
		l.do(i, "DEL", "y")
	}
	require.Equal(t, "set", l.next())
}

// The goal: a key that is free on the arbiter and held elsewhere is no reason to try again and
// again.
func TestLine_AKeyThatIsFreeOnTheArbiterAlone(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := connectedTo(t, nodes)
	arbiter := arbiterOf(c, "x")
	for i := range 3 {
		if i != arbiter {
			_, err := nodes.Do(i, "SET", "x", "another's")
			require.NoError(t, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, f := c.Acquire(ctx, []string{"x"}, options())
	require.True(t, f.IsHeld())
	attempts, _ := c.locker.Mux.Muxes[0].Attempts()
	require.Less(t, attempts, uint64(150))
}
