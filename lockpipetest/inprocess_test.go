package lockpipetest

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// When Freeze returns, no command is being executed any more.
func TestInProcess_FrozenNodeExecutesNothing(t *testing.T) {
	nodes := startFor(t, 1, StartInProcess)
	s := nodes.nodes[0].server.(*inProcess)
	for range 100 {
		require.NoError(t, nodes.Freeze(0))
		if s.redis.TryLock() {
			s.redis.Unlock()
			require.Fail(t, "the lock that every command takes is free")
		}
		require.NoError(t, nodes.Thaw(0))
	}
	require.Equal(t, "PONG", do(t, nodes, 0, "PING"))
}

// The kill must not answer commands that wait inside a frozen node, although they are executed
// then.
func TestInProcess_KillAnswersNoWaitingCommand(t *testing.T) {
	const clients = 16
	nodes := startFor(t, 1, StartInProcess)
	for range 20 {
		redis := nodes.nodes[0].server.(*inProcess).redis.Server()
		require.NoError(t, nodes.Freeze(0))
		caught := make([]client, clients)
		for i := range caught {
			caught[i] = dialNode(t, nodes, 0)
			caught[i].send("SET", "k", "v")
		}
		require.Eventually(t, func() bool { return redis.TotalCommands() == clients }, eventually,
			pollEvery)
		require.NoError(t, nodes.Kill(0))
		for _, c := range caught {
			reply, err := c.receive()
			require.Error(t, err, "answered %v", reply)
		}
		require.NoError(t, nodes.Restart(0))
	}
}

// Not every command takes the lock; a frozen node does not answer the others either.
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
