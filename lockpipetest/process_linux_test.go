package lockpipetest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// processState returns the letter of the state of a process or thread from its stat file, or ""
// when there is none.
func processState(stat string) string {
	text, err := os.ReadFile(stat)
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), ") ") // after the command's name
	state, _, _ := strings.Cut(rest, " ")
	return state
}

func alive(pid string) bool {
	state := processState("/proc/" + pid + "/stat")
	// A zombie is dead, even if process 1 is slow to bury it.
	return state != "" && state != "Z" && state != "X"
}

// A test binary that is killed (by a timeout, by the out-of-memory killer) can't clean up. Its
// servers must die with it, frozen ones too, and no directory may stay behind.
func TestChild_KilledParentLeavesNothingBehind(t *testing.T) {
	RequireRedis(t)
	tmp := t.TempDir()
	helper := exec.Command(os.Args[0])
	helper.Env = append(os.Environ(), helperVar+"=1", "TMPDIR="+tmp)
	stdin, err := helper.StdinPipe()
	require.NoError(t, err)
	defer stdin.Close()
	stdout, err := helper.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, helper.Start())

	line, err := bufio.NewReader(stdout).ReadString('\n')
	pids := strings.Fields(line)
	for _, pid := range pids {
		require.True(t, alive(pid), "%s: %s", line, err)
	}
	require.NoError(t, helper.Process.Kill())
	require.Error(t, helper.Wait(), "killed")

	require.Len(t, pids, 4, line)
	for _, pid := range pids {
		require.Eventually(t, func() bool { return !alive(pid) }, eventually, pollEvery,
			"server %s is still there", pid)
	}
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}

// Even running nodes make no file or directory, so there is nothing to clean up.
func TestChild_UsesNoFile(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	nodes := StartRealT(t, 2)
	do(t, nodes, 0, "SET", "k", "v")
	_, err := nodes.Do(0, "SAVE")
	require.Error(t, err)
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
	cwd, err := os.Readlink("/proc/" + strconv.Itoa(processID(t, nodes, 0)) + "/cwd")
	require.NoError(t, err)
	require.Equal(t, "/proc", cwd)
}

// The parent-death signal comes when the creating THREAD dies. Here the thread that called Start
// and Restart dies.
func TestChild_OutlivesTheThreadOfTheCaller(t *testing.T) {
	RequireRedis(t)
	var nodes *Nodes
	var err error
	onDyingThread(t, func() {
		if nodes, err = Start(3); err == nil {
			err = nodes.Restart(1)
		}
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, nodes.Close()) }()
	for i := range nodes.Len() {
		require.Equal(t, "PONG", do(t, nodes, i, "PING"))
	}
}

// onDyingThread runs f on an OS thread and returns when that thread is gone.
func onDyingThread(t *testing.T, f func()) {
	t.Helper()
	tid := make(chan int, 1)
	finished := make(chan struct{})
	var runs sync.WaitGroup
	var run func()
	run = func() {
		runtime.LockOSThread()
		if syscall.Gettid() == syscall.Getpid() {
			// The first thread of a process never ends: occupy it, and use another one.
			defer runtime.UnlockOSThread()
			runs.Go(run)
			<-finished
			return
		}
		f()
		tid <- syscall.Gettid()
		close(finished) // and no unlock: the thread ends with the goroutine
	}
	runs.Go(run)
	stat := "/proc/self/task/" + strconv.Itoa(<-tid) + "/stat"
	require.Eventually(t, func() bool {
		_, err := os.Stat(stat)
		return os.IsNotExist(err)
	}, eventually, pollEvery)
	runs.Wait()
}

// When Freeze returns, every thread of the server has stopped already.
func TestFreeze_HasStoppedTheProcessOnReturn(t *testing.T) {
	t.Parallel()
	nodes := StartRealT(t, 1)
	tasks := "/proc/" + strconv.Itoa(processID(t, nodes, 0)) + "/task/*/stat"
	for range 200 {
		require.NoError(t, nodes.Freeze(0))
		stats, err := filepath.Glob(tasks)
		require.NoError(t, err)
		require.NotEmpty(t, stats)
		for _, stat := range stats {
			require.Equal(t, "T", processState(stat))
		}
		require.NoError(t, nodes.Thaw(0))
	}
}

// Freeze must not wait for ever for a process that dies instead of stopping.
func TestFreeze_DyingProcessIsAnError(t *testing.T) {
	t.Parallel()
	for range 20 {
		nodes := StartRealT(t, 1)
		require.NoError(t, syscall.Kill(processID(t, nodes, 0), syscall.SIGKILL))
		require.ErrorIs(t, nodes.Freeze(0), errNotRunning)
		require.ErrorIs(t, nodes.Thaw(0), errNotRunning)
		require.NoError(t, nodes.Close())
	}
}
