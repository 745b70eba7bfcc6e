//go:build unix

package lockpipe_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: the process of a holder is stopped for longer than its TTL. When it continues, the
// first thing that it asks the lease reports the loss, though no timer has run by then. The holder
// leaves the next holder alone.
func TestLease_AStoppedHolderKnowsAtOnce_InRealTime(t *testing.T) {
	skipIfShort(t, "a process that is stopped for longer than its TTL")
	nodes := servertest.Start(t, 3)
	c := connected(t, newClient(t, nodes))
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
	line := receive(t, lines, "the holder says nothing")
	token, ok := strings.CutPrefix(line, "holds ")
	require.True(t, ok, line)
	onEvery(t, nodes, span(0, 3), "k", token)

	require.NoError(t, holder.Process.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	onEvery(t, nodes, span(0, 3), "k", "")
	next := take(t, c, "k")
	onEvery(t, nodes, span(0, 3), "k", next.Token())
	eventually(t, func() bool { return time.Since(stopped) > holderStop }, "time stands still")
	require.NoError(t, holder.Process.Signal(syscall.SIGCONT))
	observed := receive(t, lines, "the holder does not go on")
	require.NotContains(t, observed, beforeTheStop)
	require.Equal(t, "observes lost true context canceled lost", observed, "two holders")
	require.Equal(t, "told lost nil", receive(t, lines, "the holder is not told"))

	lasting(t, next)
	for i := range nodes.Len() {
		require.Equal(t, next.Token(), value(t, nodes, i, "k"), "two holders: node %d", i)
	}
	require.NoError(t, next.Release(t.Context()))
	nothingLeft(t, nodes)
}
