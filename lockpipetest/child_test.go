//go:build unix

package lockpipetest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/stretchr/testify/require"
)

// fakeRedis puts a shell script on the PATH in place of redis-server, and returns its directory.
func fakeRedis(t *testing.T, script string) (dir string) {
	t.Helper()
	path := RequireRedis(t)
	dir = t.TempDir()
	script = "#!/bin/sh\ncase \"$1\" in --version) echo 'Redis server v=7.0.15 sha=0'; exit;; " +
		"esac\n" + script
	script = strings.NewReplacer("REAL", path, "DIR", dir).Replace(script)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "redis-server"), []byte(script), 0o700))
	t.Setenv(programVar, "")
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return dir
}

func processID(t *testing.T, nodes *Nodes, i int) int {
	t.Helper()
	info := resp.ParseInfo(do(t, nodes, i, "INFO", "server").(string))
	id, err := strconv.Atoi(info["process_id"])
	require.NoError(t, err)
	return id
}

// Another program can take a port between the choice and the bind. That is what the retry is for.
func TestChild_EarlyExitIsRetried(t *testing.T) {
	fakeRedis(t, "mkdir DIR/first 2>/dev/null && exit 1\nexec REAL \"$@\"\n")
	nodes := StartRealT(t, 1)
	require.Equal(t, "PONG", do(t, nodes, 0, "PING"))

	require.NoError(t, os.Remove(filepath.Join(strings.Split(os.Getenv("PATH"),
		string(os.PathListSeparator))[0], "first")))
	require.NoError(t, nodes.Restart(0))
	require.Equal(t, "PONG", do(t, nodes, 0, "PING"))
}

// The reason must be in the error: the user sees nothing else.
func TestChild_ServerThatNeverStartsIsAnError(t *testing.T) {
	dir := fakeRedis(t, "echo x >>DIR/tries; echo 'out of luck' >&2; exit 7\n")
	_, err := Start(1)
	require.ErrorContains(t, err, "out of luck")
	require.ErrorContains(t, err, "exit status 7")
	tries, err := os.ReadFile(filepath.Join(dir, "tries"))
	require.NoError(t, err)
	require.Len(t, strings.Fields(string(tries)), launchAttempts)
}

// A stray server on the port answers in place of the child, which could not bind it. This child
// lives long enough to be probed.
func TestChild_StrayServerIsNotTakenForIt(t *testing.T) {
	stray := StartRealT(t, 1)
	addr := stray.nodes[0].port.addr
	fakeRedis(t, "sleep 0.2; exit 1\n")
	path, err := findRedisServer()
	require.NoError(t, err)
	s := newSpawner()
	defer s.close()
	_, err = redisLauncher(s, path, true)(addr)
	require.ErrorContains(t, err, "ended before it was ready")
	require.Equal(t, "PONG", do(t, stray, 0, "PING"), "the stray server still runs")
}

func TestChild_FailsOnTakenPort(t *testing.T) {
	stray := StartRealT(t, 1)
	_, err := redisLauncher(stray.spawner, must(findRedisServer()), true)(stray.nodes[0].port.addr)
	require.ErrorContains(t, err, "ended before it was ready")
	require.ErrorContains(t, err, "in use")
}

func TestChild_OldServerIsStartedWithoutNewSettings(t *testing.T) {
	for version, want := range map[string]bool{
		"Redis server v=6.2.14 sha=00000000:0": false,
		"Redis server v=7.0.15 sha=00000000:0": true,
		"Valkey server v=8.1.0 sha=00000000:0": true,
		"Redis server v=10.0.0 sha=00000000:0": true,
		"something else":                       true,
	} {
		path := filepath.Join(t.TempDir(), "redis-server")
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho '"+version+"'\n"), 0o700))
		require.Equal(t, want, hasDebugSettings(path), version)
		args := must(redisArgs("127.0.0.1:1", hasDebugSettings(path)))
		require.Equal(t, want, strings.Contains(strings.Join(args, " "), "--enable-debug-command"),
			version)
	}
	require.True(t, hasDebugSettings(filepath.Join(t.TempDir(), "missing")))
}

func TestChild_IsTheNamedProgram(t *testing.T) {
	dir := fakeRedis(t, "touch DIR/ran\nexec REAL \"$@\"\n")
	program := filepath.Join(dir, "another-server")
	require.NoError(t, os.Rename(filepath.Join(dir, "redis-server"), program))
	t.Setenv(programVar, program)
	ran := filepath.Join(dir, "ran")
	for name, start := range map[string]func(){
		"nodes":      func() { StartT(t, 1) },
		"replicated": func() { StartReplicatedT(t) },
	} {
		start()
		require.FileExists(t, ran, name)
		require.NoError(t, os.Remove(ran))
	}
	require.Equal(t, program, RequireRedis(t))
}

func TestChild_RestartIsAnotherServer(t *testing.T) {
	nodes := StartRealT(t, 1)
	do(t, nodes, 0, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	before := processID(t, nodes, 0)
	require.NoError(t, nodes.Restart(0))
	require.NotEqual(t, before, processID(t, nodes, 0))
	require.Equal(t, []any{"maxmemory-policy", "noeviction"}, do(t, nodes, 0, "CONFIG", "GET",
		"maxmemory-policy"))
}

// A server that a test shuts down by a command is dead, as after Kill.
func TestChild_ServerThatWasShutDownCanBeRestarted(t *testing.T) {
	nodes := StartRealT(t, 1)
	_, err := nodes.Do(0, "SHUTDOWN", "NOSAVE")
	require.Error(t, err, "the connection breaks")
	<-nodes.nodes[0].server.(*child).exited
	require.ErrorIs(t, nodes.Freeze(0), errNotRunning)
	require.ErrorIs(t, nodes.Thaw(0), errNotRunning)
	require.NoError(t, nodes.Restart(0))
	require.Equal(t, "PONG", do(t, nodes, 0, "PING"))
}

func TestChild_DebugCommandsAreEnabled(t *testing.T) {
	nodes := StartRealT(t, 1)
	require.Equal(t, "OK", do(t, nodes, 0, "DEBUG", "SLEEP", "0"))
}

// Replication and persistence must work for tests that ask for them, although the nodes themselves
// use no file.
func TestChild_CanBecomeReplica(t *testing.T) {
	nodes := StartRealT(t, 2)
	do(t, nodes, 0, "SET", "k", "v")
	host, port, _ := strings.Cut(nodes.nodes[0].port.addr, ":")
	do(t, nodes, 1, "REPLICAOF", host, port)
	require.Eventually(t, func() bool {
		v, err := nodes.Do(1, "GET", "k")
		return err == nil && v == "v"
	}, eventually, pollEvery)
}

func TestChild_CanBeMadeDurableInDirectoryOfTest(t *testing.T) {
	nodes := StartRealT(t, 1)
	dir := t.TempDir()
	do(t, nodes, 0, "CONFIG", "SET", "dir", dir)
	do(t, nodes, 0, "CONFIG", "SET", "appendonly", "yes")
	do(t, nodes, 0, "CONFIG", "SET", "appendfsync", "always")
	do(t, nodes, 0, "SET", "k", "v")
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	require.Eventually(t, func() bool {
		// The process that writes the first file would outlive the server, and write into a
		// directory that is being removed.
		info, _ := do(t, nodes, 0, "INFO", "persistence").(string)
		return strings.Contains(info, "aof_rewrite_in_progress:0") &&
			strings.Contains(info, "aof_rewrite_scheduled:0")
	}, eventually, pollEvery)
	require.NoError(t, nodes.Restart(0))
	require.Nil(t, do(t, nodes, 0, "GET", "k"), "a restarted node is empty all the same")
}

func TestCappedBuffer_KeepsTheBeginning(t *testing.T) {
	var h cappedBuffer
	for _, s := range []string{"first\n", strings.Repeat("x", outputLimit), "last"} {
		n, err := h.Write([]byte(s))
		require.NoError(t, err)
		require.Equal(t, len(s), n)
	}
	require.Len(t, h.String(), outputLimit)
	require.True(t, strings.HasPrefix(h.String(), "first\n"))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
