package lockpipetest

import (
	"bufio"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptools"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// helperVar turns the test binary into the program that a test of process_linux_test.go kills.
const helperVar = "LOCKPIPETEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperVar) != "" {
		helperMain()
		return
	}
	// The examples import lockpipe, and with it a pool that starts these two.
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"))
}

// eventually bounds the wait for something that is certain to happen.
const eventually = 20 * time.Second

// onBothBackends runs a test on n nodes of each kind.
func onBothBackends(t *testing.T, n int, test func(t *testing.T, nodes *Nodes)) {
	t.Run("redis-server", func(t *testing.T) {
		nodes := StartRealT(t, n)
		require.Equal(t, "redis-server", nodes.Backend())
		test(t, nodes)
	})
	t.Run("in-process", func(t *testing.T) {
		nodes := startFor(t, n, StartInProcess)
		require.Equal(t, "in-process", nodes.Backend())
		test(t, nodes)
	})
}

func do(t *testing.T, nodes *Nodes, i int, args ...string) any {
	t.Helper()
	reply, err := nodes.Do(i, args...)
	require.NoError(t, err)
	return reply
}

// client is a connection that outlives its commands, as that of a real client does.
type client struct {
	*resp.Conn
	t *testing.T
}

func dialNode(t *testing.T, nodes *Nodes, i int) client {
	t.Helper()
	conn, err := dial(nodes.nodes[i].port.addr, eventually)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return client{conn, t}
}

func (c client) send(args ...string) {
	c.t.Helper()
	_, err := c.Write(resp.AppendCommand(nil, args...))
	require.NoError(c.t, err)
}

func (c client) receive() (any, error) {
	reply, err := c.Receive()
	return resptools.Any(reply), err
}

// requireSilence holds if the server has not answered for a while. It can miss a late answer, but
// it never fails without one.
func (c client) requireSilence() {
	c.t.Helper()
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := bufio.NewReader(c.Conn).Peek(1)
	var timeout net.Error
	require.ErrorAs(c.t, err, &timeout)
	require.True(c.t, timeout.Timeout(), "%v", err)
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(eventually)))
}

// pollEvery is the time between two checks whether something has happened.
const pollEvery = 5 * time.Millisecond

// requireRefused holds if err is a refused connection, not, say, a timeout.
func requireRefused(t *testing.T, err error) {
	t.Helper()
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "dial", op.Op)
	if runtime.GOOS != "windows" { // its error number is another one
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
}
