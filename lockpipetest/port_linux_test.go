package lockpipetest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// While a node is dead, no other group of nodes and no connection of a client gets its port. So
// Restart finds it free.
func TestPort_OfDeadNodeIsHeld(t *testing.T) {
	onBothBackends(t, 1, func(t *testing.T, nodes *Nodes) {
		require.NoError(t, nodes.Kill(0))
		requirePortHeld(t, nodes.nodes[0].port.addr)
		require.NoError(t, nodes.Restart(0))
		require.Equal(t, "PONG", do(t, nodes, 0, "PING"))
	})
}

func requirePortHeld(t *testing.T, addr string) {
	t.Helper()
	_, text, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	number, err := strconv.Atoi(text)
	require.NoError(t, err)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	_, err = bindLoopback(fd, number)
	require.ErrorIs(t, err, unix.EADDRINUSE)
}

// A reserved port refuses connections and does not hang. After release it is free.
func TestPort_RefusesWhileHeldAndIsFreeAfterRelease(t *testing.T) {
	p, err := reservePort()
	require.NoError(t, err)
	_, err = net.Dial("tcp", p.addr)
	requireRefused(t, err)
	l, err := net.Listen("tcp4", p.addr)
	require.NoError(t, err, "a server can listen on it")
	require.NoError(t, l.Close())
	require.NoError(t, p.release())
	require.Error(t, p.release(), "released once")
}

// The goal: a server in the process restarts on its port while the process starts children. A child
// has a copy of each socket until it executes its program, also of a listener that is closed.
func TestInProcess_RestartsWhileChildrenStart(t *testing.T) {
	nodes := startFor(t, 1, StartInProcess)
	program, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var children sync.WaitGroup
	for range 4 {
		children.Go(func() {
			for ctx.Err() == nil {
				_ = exec.Command(program, "-test.run=^$").Run()
			}
		})
	}
	for range 3000 {
		if err = nodes.Restart(0); err != nil {
			break
		}
	}
	cancel()
	children.Wait()
	require.NoError(t, err)
}
