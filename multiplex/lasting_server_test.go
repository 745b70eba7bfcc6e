package multiplex

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// lasting is a redis-server with files, on a socket of its own.
type lasting struct {
	t       *testing.T
	program string
	dir     string
	args    []string
	cmd     *exec.Cmd
}

// shortDir is for sockets: their names must be shorter than those in t.TempDir.
func shortDir() (string, error) { return os.MkdirTemp("", "lockpipe") }

func startLasting(t *testing.T, args ...string) *lasting {
	t.Helper()
	program := servertest.Program(t)
	dir, err := shortDir()
	require.NoError(t, err)
	s := &lasting{t: t, program: program, dir: dir, args: args}
	t.Cleanup(func() {
		s.kill()
		require.NoError(t, os.RemoveAll(dir))
	})
	s.start()
	return s
}

// startClusterNode starts a node of a Redis Cluster. Its bus has a port of its own, or all such
// servers want the same one.
func startClusterNode(t *testing.T) *lasting {
	t.Helper()
	free, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(free.Addr().String())
	require.NoError(t, err)
	require.NoError(t, free.Close())
	return startLasting(t, "--cluster-enabled", "yes", "--cluster-port", port)
}

func (s *lasting) socket() string { return filepath.Join(s.dir, "s") }
func (s *lasting) url() []string  { return []string{"unix://" + s.socket()} }

func (s *lasting) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.program, append([]string{
		"--port", "0", "--unixsocket", s.socket(),
		"--dir", s.dir, "--save", "",
	}, s.args...)...)
	require.NoError(s.t, s.cmd.Start())
	require.Eventually(s.t, func() bool {
		_, err := s.do("PING")
		return err == nil
	}, patient, often)
}

func (s *lasting) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *lasting) do(args ...string) (got resp.Value, err error) {
	conn, err := net.Dial("unix", s.socket())
	if err != nil {
		return got, err
	}
	defer func() { _ = conn.Close() }()
	err = resp.NewConn(conn).Do(resp.Step{
		Command: args, OnReply: func(v resp.Value) error { got = v; return v.Err() },
	})
	return got, err
}
