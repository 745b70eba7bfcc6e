package lockpipetest

import (
	"net"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// When Freeze returns, no command is being executed any more. Under load, two looks see the same.
func TestInProcess_FrozenNodeExecutesNothing(t *testing.T) {
	nodes := startFor(t, 1, StartInProcess)
	node := nodes.nodes[0].server.(*inProcess).node
	c := dialNode(t, nodes, 0)
	for i := range 100 {
		for range 10 {
			c.send("SET", "k", strconv.Itoa(i))
		}
		require.NoError(t, nodes.Freeze(0))
		before, _ := node.Get("k")
		runtime.Gosched()
		after, _ := node.Get("k")
		require.Equal(t, before, after)
		require.NoError(t, nodes.Thaw(0))
		for range 10 {
			reply, err := c.receive()
			require.NoError(t, err)
			require.Equal(t, "OK", reply)
		}
	}
}

// The kill must neither answer nor execute commands that wait inside a frozen node.
func TestInProcess_KillDropsWaitingCommands(t *testing.T) {
	const clients = 16
	nodes := startFor(t, 1, StartInProcess)
	for range 20 {
		node := nodes.nodes[0].server.(*inProcess).node
		caught := make([]client, clients)
		for i := range caught {
			caught[i] = dialNode(t, nodes, 0)
		}
		require.NoError(t, nodes.Freeze(0))
		for _, c := range caught {
			c.send("SET", "k", "v")
		}
		require.NoError(t, nodes.Kill(0))
		for _, c := range caught {
			reply, err := c.receive()
			require.Error(t, err, "answered %v", reply)
		}
		require.Empty(t, node.LiveKeys())
		require.NoError(t, nodes.Restart(0))
	}
}

// A frozen node does not answer commands that it does not know, either.
func TestInProcess_FrozenNodeHoldsRepliesBack(t *testing.T) {
	nodes := startFor(t, 1, StartInProcess)
	c := dialNode(t, nodes, 0)
	require.NoError(t, nodes.Freeze(0))
	c.send("NOSUCHCOMMAND")
	c.requireSilence()
	require.NoError(t, nodes.Thaw(0))
	reply, err := c.receive()
	require.NoError(t, err)
	require.ErrorContains(t, reply.(error), "unknown command")
}

func TestInProcess_TakenPortIsAnErrorAndNoLeak(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = launchInProcess(l.Addr().String())
	require.ErrorContains(t, err, "in use")
}
