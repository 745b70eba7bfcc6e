package lockpipe_test

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
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

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

// Goal: where nodes execute everything and their answers are lost, a minority of them is not
// noticed; and of a majority the call says whose answers it lacks, what it left behind is deleted
// over new connections, and a release is confirmed in the end.
func TestAnswersThatAreLostAfterTheExecution(t *testing.T) {
	t.Parallel()
	for call, operate := range map[string]operation{
		"acquire": func(ctx context.Context, c *lockpipe.Client, _ *lockpipe.Lease) error {
			l, err := c.TryAcquireAll(ctx, []string{"a", "b"})
			return errors.Join(err, l.Release(ctx))
		},
		"extend": func(ctx context.Context, _ *lockpipe.Client,
			l *lockpipe.Lease,
		) error {
			return l.Extend(ctx, longTTL)
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
	nodes := lockpipetest.StartRealT(t, 3)
	way := &line{open: map[string]*lossyConn{}, made: map[string]int{}}
	limit := time.Second
	if deaf == 1 { // the call ends with the answers of the others, however late they are
		limit = longTTL / 4
	}
	c := connected(t, newClient(t, nodes, timeout(limit),
		func(cfg *lockpipe.Config) { cfg.Dial = way.dial }))
	l := take(t, c, "k")
	onEvery(t, nodes, span(0, 3), "k", l.Token())
	before := c.Stats()
	for i := range deaf {
		way.arm(address(nodes, i))
	}
	err := operate(t.Context(), c, l)
	switch {
	case deaf == 1:
		require.NoError(t, err)
	case err != nil || !confirmed:
		blames(t, err, nodes, span(0, deaf), "")
	}
	require.Equal(t, before.Lost+before.Expired, c.Stats().Lost+c.Stats().Expired)
	eventually(t, func() bool { return way.dialled(address(nodes, 0)) > 1 && allUp(c) },
		"the nodes do not come back")
	eventually(t, func() bool { return l.Release(t.Context()) == nil },
		"the release is not confirmed")
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes)
}

// Goal: a node that forgets all its keys under load, again and again, costs at most leases that had
// no more than a quorum yet: their extensions find them lost, or get no quorum because the node
// does not vote any more. Nothing else fails, and nothing is left.
func TestANodeThatForgetsAllKeysUnderLoad(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	load := startLoad(t, c, 16, func(name string) string { return name })
	for range 10 {
		load.goesOn(t, 20)
		require.NoError(t, nodes.Flush(0))
	}
	for _, err := range load.stop() {
		require.True(t, anyOf(err, lockpipe.ErrLost, lockpipe.ErrNoQuorum), "%v", err)
	}
	nothingLeft(t, nodes)
}

// Goal: a majority that forgets all its keys costs a lease, and the holder is told so by the next
// extension; its release leaves nothing.
func TestAFlushedMajorityIsALoss(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	l := try(t, c, "k")
	onEvery(t, nodes, span(0, 3), "k", l.Token())
	require.NoError(t, nodes.Flush(0))
	require.NoError(t, nodes.Flush(1))
	err := l.Extend(t.Context(), longTTL)
	// By whether the nodes still vote.
	require.True(t, anyOf(err, lockpipe.ErrLost, lockpipe.ErrNoQuorum), "%v", err)
	_ = l.Release(t.Context())
	// The others are quarantined; what an extension has put there ends with its TTL.
	nothingLeft(t, nodes, 2)
}

// Goal: a password that is changed on a running server costs nothing while the connection lasts.
// After a reconnect the node is down and says why, without any password, and it is back when the
// password is.
func TestAPasswordThatIsChangedAtRunTime(t *testing.T) {
	t.Parallel()
	const old, changed = "old-s3cret", "new-s3cret"
	nodes := lockpipetest.StartRealT(t, 3)
	urls := nodes.URLs()
	converse(t, nodes, 0, "CONFIG SET requirepass "+old)
	urls[0] = strings.Replace(urls[0], "redis://", "redis://:"+old+"@", 1)
	c := connected(t, newClient(t, nodes, func(cfg *lockpipe.Config) { cfg.Nodes = urls }))
	converse(t, nodes, 0, "AUTH "+old, "CONFIG SET requirepass "+changed)
	l := try(t, c, "k")
	converse(t, nodes, 0, "AUTH "+changed, "PING")
	require.Equal(t, lockpipe.NodeUp, c.Nodes()[0].State)
	require.NoError(t, l.Extend(t.Context(), longTTL))

	converse(t, nodes, 0, "AUTH "+changed, "CLIENT KILL TYPE normal SKIPME yes")
	down(t, c, 0, "WRONGPASS")
	require.NotContains(t, c.Nodes()[0].Err.Error(), "s3cret")
	require.NoError(t, try(t, c, "meanwhile").Release(t.Context()))
	require.NoError(t, l.Extend(t.Context(), longTTL))
	require.NoError(t, nodes.Kill(1))
	_, err := c.TryAcquire(t.Context(), "other")
	blames(t, err, nodes, []int{0}, "WRONGPASS")
	require.NotContains(t, err.Error(), "s3cret")
	require.NoError(t, nodes.Restart(1))

	converse(t, nodes, 0, "AUTH "+changed, "CONFIG SET requirepass "+old)
	eventually(t, func() bool { return c.Nodes()[0].State == lockpipe.NodeUp },
		"the node does not come back")
	_ = l.Release(t.Context())
	converse(t, nodes, 0, "AUTH "+old, `CONFIG SET requirepass ""`)
	nothingLeft(t, nodes)
}

// Goal: a client that may not call scripts, or not load them, is told which command it lacks, and
// what it could not delete is deleted when it may.
func TestACommandThatIsForbiddenIsNamed(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"evalsha", "script"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			nodes := lockpipetest.StartRealT(t, 3)
			c := connected(t, newClient(t, nodes))
			held := try(t, c, "held")
			for i := range nodes.Len() {
				do(t, nodes, i, "SCRIPT", "FLUSH")
				do(t, nodes, i, "ACL", "SETUSER", "default", "-"+command)
			}
			_, err := c.TryAcquireAll(t.Context(), []string{"a", "b"})
			blames(t, err, nodes, nil, "")
			require.ErrorContains(t, err, "NOPERM")
			require.ErrorContains(t, err, command)
			err = held.Release(t.Context())
			blames(t, err, nodes, nil, "")
			require.ErrorContains(t, err, "NOPERM")
			require.ErrorContains(t, err, command)
			for i := range nodes.Len() {
				do(t, nodes, i, "ACL", "SETUSER", "default", "+"+command)
			}
			eventually(t, func() bool { return held.Release(t.Context()) == nil },
				"the release is not confirmed")
			nothingLeft(t, nodes)
		})
	}
}
