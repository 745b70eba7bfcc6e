//go:build unix

package leases

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: the process of a holder is stopped for longer than its TTL. When it continues, the
// first thing that it asks the lease reports the loss, though no timer has run by then. The holder
// leaves the next holder alone.
func TestLease_AStoppedHolderKnowsAtOnce_InRealTime(t *testing.T) {
	servertest.RealTime(t)
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), holderVar+"="+strings.Join(nodes.URLs(), ","))
	stdin, err := holder.StdinPipe()
	require.NoError(t, err)
	stdout, err := holder.StdoutPipe()
	require.NoError(t, err)
	holder.Stderr = os.Stderr
	require.NoError(t, holder.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	lines := make(chan string)
	go func() {
		defer close(lines)
		for said := bufio.NewScanner(stdout); said.Scan(); {
			lines <- said.Text()
		}
	}()
	line := kit.Receive(t, lines, "the holder says nothing")
	token, ok := strings.CutPrefix(line, "holds ")
	require.True(t, ok, line)
	kit.OnEvery(t, nodes, kit.Span(0, 3), "k", token)

	require.NoError(t, holder.Process.Signal(syscall.SIGSTOP))
	var is syscall.WaitStatus // it says that the last thread has stopped
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		_, err = syscall.Wait4(holder.Process.Pid, &is, syscall.WUNTRACED, nil)
	}
	require.NoError(t, err)
	require.True(t, is.Stopped())
	stopped := time.Now()
	kit.OnEvery(t, nodes, kit.Span(0, 3), "k", "")
	next := kit.Take(t, c, "k")
	kit.OnEvery(t, nodes, kit.Span(0, 3), "k", next.Token())
	kit.Eventually(t, func() bool { return time.Since(stopped) > holderStop }, "time stands still")
	require.NoError(t, holder.Process.Signal(syscall.SIGCONT))
	observed := kit.Receive(t, lines, "the holder does not go on")
	require.NotContains(t, observed, beforeTheStop)
	require.Equal(t, "observes lost true context canceled lost", observed, "two holders")
	require.Equal(t, "told lost nil", kit.Receive(t, lines, "the holder is not told"))

	kit.Lasting(t, next)
	for i := range nodes.Len() {
		require.Equal(t, next.Token(), kit.Value(t, nodes, i, "k"), "two holders: node %d", i)
	}
	require.NoError(t, next.Release(t.Context()))
	kit.NothingLeft(t, nodes)
}
