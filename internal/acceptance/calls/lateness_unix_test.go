//go:build unix

package calls

import (
	"io"
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

// The goal: a process is stopped again and again, in the middle of calls, also for longer than
// NodeTimeout. The answers came meanwhile, so no call says that a node has not answered.
func TestNodes_AStoppedProcessBlamesNoNode(t *testing.T) {
	kit.SkipIfShort(t, "a process that is stopped for longer than NodeTimeout")
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
	for i := range 5 {
		time.Sleep(callerTimeout / 10) // it is in the middle of calls
		require.NoError(t, caller.Process.Signal(syscall.SIGSTOP))
		time.Sleep(callerTimeout / 2 * time.Duration(1+i%3))
		require.NoError(t, caller.Process.Signal(syscall.SIGCONT))
	}
	time.Sleep(callerTimeout / 10)
	require.NoError(t, stdin.Close())
	said, err := io.ReadAll(stdout)
	require.NoError(t, err)
	require.Equal(t, "no call failed\n", string(said))
}
