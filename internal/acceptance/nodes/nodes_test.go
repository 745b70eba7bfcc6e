package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: calls that wait longer than the client needs to give up a silent connection end with
// ErrNoQuorum that does not look like a deadline of the caller.
func TestNodes_AGivenUpConnectionIsNotTheCallersDeadline(t *testing.T) {
	kit.SkipIfShort(t, "servers that are silent until their connections are given up")
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	held := kit.Try(t, c, "held")
	require.NoError(t, nodes.Freeze(0))
	require.NoError(t, nodes.Freeze(1))
	extended := kit.Later(func() error { return held.Extend(context.Background(), kit.LongTTL) })
	_, err := c.TryAcquire(t.Context(), "k")
	kit.Blames(t, err, nodes, []int{0, 1}, "")
	kit.Blames(t, kit.Receive(t, extended, "Extend does not return"), nodes, []int{0, 1}, "")
	_, err = c.TryAcquire(t.Context(), "k")
	kit.Blames(t, err, nodes, []int{0, 1}, "")
	require.NoError(t, nodes.Thaw(0))
	require.NoError(t, nodes.Thaw(1))
	kit.Eventually(t, func() bool { return kit.AllUp(c) }, "the nodes do not come back")
	require.NoError(t, held.Release(t.Context()))
	kit.CaughtUp(t, c, nodes)
	kit.NothingLeft(t, nodes)
}

// The goal: a client is made while all its nodes are down, and its calls say so. Each node joins
// automatically when it comes up.
func TestNodes_JoinWhenTheyComeUpLater(t *testing.T) {
	kit.SkipIfShort(t, "servers that come up after the client")
	t.Parallel()
	nodes := servertest.Start(t, 3)
	for i := range nodes.Len() {
		require.NoError(t, nodes.Kill(i))
	}
	c := kit.NewClient(t, nodes, shortMaxTTL)
	_, err := c.TryAcquire(t.Context(), "k")
	kit.QuorumError(t, err)
	for i := range nodes.Len() {
		down(t, c, i, "refused")
		require.Equal(t, kit.Address(nodes, i), c.Nodes()[i].Addr)
	}
	waiting := kit.Later(func() error {
		l, err := c.Acquire(context.Background(), "waiting")
		_ = l.Release(context.Background())
		return err
	})
	for i := range nodes.Len() { // together, so that their quarantines pass together
		require.NoError(t, nodes.Restart(i))
	}
	for i := range nodes.Len() {
		kit.Eventually(t, func() bool { return c.Nodes()[i].State == lockpipe.NodeUp },
			"node %d does not join", i)
		require.NoError(t, c.Nodes()[i].Err)
	}
	require.NoError(t, kit.Receive(t, waiting, "the call that waited for the nodes does not get its "+
		"lease"))
	require.NoError(t, kit.Take(t, c, "k").Release(t.Context()))
	kit.NothingLeft(t, nodes)
}

// shortMaxTTL keeps a node that restarts empty from being mistrusted for longer than a test lasts.
func shortMaxTTL(cfg *lockpipe.Config) {
	cfg.MaxTTL, cfg.TTL, cfg.NodeTimeout = 4*time.Second, 4*time.Second, 2*time.Second
}

// The goal: the client sees that a node restarted empty, and the node votes again later without any
// call.
func TestNodes_OneThatRestartsEmptyRejoins(t *testing.T) {
	kit.SkipIfShort(t, "the quarantines of servers that restart empty")
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes, shortMaxTTL))
	for i := range nodes.Len() { // one after another, so that a quorum is there all the time
		require.NoError(t, nodes.Kill(i))
		kit.Eventually(t, func() bool { return c.Nodes()[i].State != lockpipe.NodeUp },
			"node %d is not missed", i)
		require.NoError(t, kit.Take(t, c, "meanwhile").Release(t.Context()))
		require.NoError(t, nodes.Restart(i))
		kit.Eventually(t, func() bool { return c.Nodes()[i].State == lockpipe.NodeUp },
			"node %d does not come back", i)
	}
	l := kit.Take(t, c, "k")
	kit.OnEvery(t, nodes, kit.Span(0, 3), "k", l.Token())
	require.NoError(t, l.Release(t.Context()))
	kit.NothingLeft(t, nodes)
}

// unsaved is what a server answers whose last snapshot failed.
const unsaved = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable " +
	"to persist to disk."

// The goal: a node that answers acquires with errors for a second is shown as failing, in the
// metrics and once in the log, and is no spare. When it is well, it is up without any call.
func TestNodes_AFailingOneIsNoSpare(t *testing.T) {
	t.Parallel()
	var log kit.LockedBuffer
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		shows := func(state string, spare float64) {
			t.Helper()
			got := scrape(t, c)
			for _, s := range []string{"connecting", "up", "quarantined", "down", "failing"} {
				want := 0.0
				if s == state {
					want = 1
				}
				require.InDelta(t, want, got[`lockpipe_node_state{node="node-0:6379",state="`+s+
					`"}`], 0, s)
			}
			require.InDelta(t, spare, got["lockpipe_spare_nodes"], 0)
		}
		shows("up", 1)
		v.Fail(0, unsaved)
		for range 40 {
			require.NoError(t, kit.Try(t, c, "k").Release(t.Context()))
			time.Sleep(50 * time.Millisecond)
		}
		shows("failing", 0)
		require.EqualError(t, c.Nodes()[0].Err, unsaved)
		require.Equal(t, "failing", c.Nodes()[0].State.String())
		v.Heal(0)
		time.Sleep(time.Second)
		shows("up", 1)
		require.Len(t, kit.LinesWith(&log, "node is failing"), 1)
		require.Len(t, kit.LinesWith(&log, "node is up"), 4)
		time.Sleep(time.Second) // for the releases that were kept
		v.NothingLeft(t)
	}, kit.LogTo(&log))
}

// The goal: a waiting call outlasts a majority that fails or was demoted. It gets its lease when
// the nodes are well, even if nobody else calls.
func TestNodes_AWaitingCallOutlastsUnusableOnes(t *testing.T) {
	t.Parallel()
	for says, state := range map[string]lockpipe.NodeState{
		unsaved: lockpipe.NodeFailing, kit.ReadOnly: lockpipe.NodeDown,
	} {
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			v.Fail(0, says)
			v.Fail(1, says)
			got := kit.Wanted(t, c, []string{"k"})
			time.Sleep(10 * time.Second)
			for i := range 2 { // it is up for a moment when it is connected again
				require.True(t, kit.Poll(func() bool {
					n := c.Nodes()[i]
					return n.State == state && strings.Contains(fmt.Sprint(n.Err), says)
				}), "node %d: %v", i, c.Nodes()[i])
			}
			require.Empty(t, got)
			v.Heal(0, 1)
			time.Sleep(2 * time.Second)
			require.True(t, kit.AllUp(c))
			require.Len(t, got, 1)
			l := <-got
			require.NotNil(t, l)
			require.NoError(t, l.Release(t.Context()))
			time.Sleep(time.Second)
			v.NothingLeft(t)
		})
	}
}

// line is the way to the nodes: what they answer can be lost on it.
type line struct {
	mu   sync.Mutex
	open map[string]*lossyConn // by address; the last one that was made
	made map[string]int
}

// lossyConn delivers everything until it is armed and a script is called: then it loses that answer
// and all that follow, for ever.
type lossyConn struct {
	net.Conn
	armed  atomic.Bool
	deaf   atomic.Bool
	closed chan struct{}
	once   sync.Once
}

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &lossyConn{Conn: conn, closed: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[address] = c
	l.made[address]++
	return c, nil
}

// dialled is how many connections were made to the node.
func (l *line) dialled(address string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made[address]
}

// arm lets the connection to the node lose what is answered to the next script and afterwards.
func (l *line) arm(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[address].armed.Store(true)
}

func (c *lossyConn) Write(p []byte) (int, error) {
	if c.armed.Load() && bytes.Contains(p, []byte("EVALSHA")) {
		c.deaf.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *lossyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.deaf.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *lossyConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// The goal: nodes execute everything, and their answers are lost. If they are a minority, no caller
// notices. If they are a majority, the call names the nodes whose answers it lacks. What it left is
// deleted over new connections, and a release is confirmed in the end.
func TestNodes_AnswersAreLostAfterTheExecution(t *testing.T) {
	kit.SkipIfShort(t, "servers whose answers are lost")
	t.Parallel()
	for call, operate := range map[string]operation{
		"acquire": func(ctx context.Context, c *lockpipe.Client, _ *lockpipe.Lease) error {
			l, err := c.TryAcquireAll(ctx, []string{"a", "b"})
			return errors.Join(err, l.Release(ctx))
		},
		"extend": func(ctx context.Context, _ *lockpipe.Client,
			l *lockpipe.Lease,
		) error {
			return l.Extend(ctx, kit.LongTTL)
		},
		"release": func(ctx context.Context, _ *lockpipe.Client,
			l *lockpipe.Lease,
		) error {
			return l.Release(ctx)
		},
	} {
		for deaf := 1; deaf <= 3; deaf++ {
			t.Run(fmt.Sprintf("%s, %d of 3", call, deaf), func(t *testing.T) {
				t.Parallel()
				answersAreLost(t, deaf, operate, call == "release")
			})
		}
	}
}

// operation is one call that the nodes execute without being heard.
type operation func(ctx context.Context, c *lockpipe.Client, l *lockpipe.Lease) error

// answersAreLost is one of these cases; confirmed tells that the operation may be confirmed over
// the new connections.
func answersAreLost(t *testing.T, deaf int, operate operation, confirmed bool) {
	nodes := servertest.Start(t, 3)
	way := &line{open: map[string]*lossyConn{}, made: map[string]int{}}
	limit := time.Second
	if deaf == 1 { // the call ends with the answers of the others, however late they are
		limit = kit.LongTTL / 4
	}
	c := kit.Connected(t, kit.NewClient(t, nodes, kit.Timeout(limit),
		func(cfg *lockpipe.Config) { cfg.Dial = way.dial }))
	l := kit.Take(t, c, "k")
	kit.OnEvery(t, nodes, kit.Span(0, 3), "k", l.Token())
	before := c.Stats()
	for i := range deaf {
		way.arm(kit.Address(nodes, i))
	}
	err := operate(t.Context(), c, l)
	switch {
	case deaf == 1:
		require.NoError(t, err)
	case err != nil || !confirmed:
		kit.Blames(t, err, nodes, kit.Span(0, deaf), "")
	}
	require.Equal(t, before.Lost+before.Expired, c.Stats().Lost+c.Stats().Expired)
	kit.Eventually(t, func() bool { return way.dialled(kit.Address(nodes, 0)) > 1 && kit.AllUp(c) },
		"the nodes do not come back")
	kit.Eventually(t, func() bool { return l.Release(t.Context()) == nil },
		"the release is not confirmed")
	kit.CaughtUp(t, c, nodes)
	kit.NothingLeft(t, nodes)
}

// down waits until the client knows that node i is down, and why. For a moment after a kill the
// reason may be another.
func down(t *testing.T, c *lockpipe.Client, i int, says string) {
	t.Helper()
	kit.Eventually(t, func() bool {
		n := c.Nodes()[i]
		return n.State == lockpipe.NodeDown && strings.Contains(n.Err.Error(), says)
	}, "node %d is not seen as down with %q", i, says)
}
