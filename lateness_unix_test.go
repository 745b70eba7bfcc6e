//go:build unix

package lockpipe_test

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: a process is stopped, in the middle of calls, for longer than NodeTimeout. The answers
// came meanwhile, so when it continues no call says that a node has not answered.
func TestNodes_AStoppedProcessBlamesNoNode(t *testing.T) {
	skipIfShort(t, "a process that is stopped for longer than NodeTimeout")
	t.Parallel()
	nodes := servertest.Start(t, 3)
	caller := exec.Command(os.Args[0])
	caller.Env = append(os.Environ(), callerVar+"="+strings.Join(nodes.URLs(), ","))
	stdin, err := caller.StdinPipe()
	require.NoError(t, err)
	stdout, err := caller.StdoutPipe()
	require.NoError(t, err)
	caller.Stderr = os.Stderr
	require.NoError(t, caller.Start())
	t.Cleanup(func() {
		_ = caller.Process.Kill()
		_ = caller.Wait()
	})
	_, err = io.ReadFull(stdout, make([]byte, len("calls\n")))
	require.NoError(t, err)
	for range 2 {
		// It is in the middle of calls, and its patience after the stop before is over.
		time.Sleep(2*callerTimeout + callerTimeout/10)
		require.NoError(t, caller.Process.Signal(syscall.SIGSTOP))
		time.Sleep(2*callerTimeout + callerTimeout/10)
		require.NoError(t, caller.Process.Signal(syscall.SIGCONT))
	}
	time.Sleep(callerTimeout / 10)
	require.NoError(t, stdin.Close())
	said, err := io.ReadAll(stdout)
	require.NoError(t, err)
	require.Equal(t, "no call failed\n", string(said))
}
