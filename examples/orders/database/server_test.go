package database

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The goal: a database answers after Start, and after Close neither it nor its directory is left.
func TestServer_CloseLeavesNothing(t *testing.T) {
	for _, kind := range []*Kind{Postgres, MariaDB} {
		t.Run(kind.Name, func(t *testing.T) {
			server, err := kind.Start()
			Require(t, err)
			var one int
			require.NoError(t, server.DB.QueryRowContext(t.Context(), "SELECT 1").Scan(&one))
			require.NoError(t, server.Close())
			require.NotNil(t, server.serve.ProcessState)
			require.NoDirExists(t, server.dir)
		})
	}
}

// The goal: the error for a missing program says what to install. The error for a program that
// fails shows its output. Both leave nothing.
func TestServer_FailedStartSaysWhy(t *testing.T) {
	//nolint:usetesting // the user nobody can't enter t.TempDir
	temp, err := os.MkdirTemp("", "orders-test-")
	require.NoError(t, err)
	defer os.Remove(temp)
	require.NoError(t, os.Chmod(temp, 0o755))
	t.Setenv("TMPDIR", temp)
	missing := *Postgres
	missing.serve = []string{"no-such-program"}
	if _, err := exec.LookPath(missing.initialize[0]); err != nil {
		missing.initialize = missing.serve
	}
	_, err = missing.Start()
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, err, "no-such-program is missing: apt-get install")

	broken := Kind{
		Name: "broken", driver: "pgx", source: "host=%s", stop: os.Interrupt,
		initialize: []string{"true"}, serve: []string{"sh", "-c", "echo out of order"},
	}
	_, err = broken.Start()
	require.ErrorContains(t, err, "broken: it ended before it was ready: out of order")

	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left)
}

// The goal: programs that are installed but not on the PATH, as Debian's are, are found.
func TestServer_FindsProgramsBesideThePath(t *testing.T) {
	root := t.TempDir()
	for _, version := range []string{"15", "16"} {
		dir := filepath.Join(root, version, "bin")
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "rare"), nil, 0o600))
	}
	kind := Kind{elsewhere: filepath.Join(root, "*", "bin")}
	path, err := kind.find("rare")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(root, "16", "bin", "rare"), path)
	_, err = kind.find("no-such-program")
	require.ErrorIs(t, err, ErrMissing)
}

// The goal: a durable database waits for the disk.
func TestDurable_CommitsWaitForTheDisk(t *testing.T) {
	server, err := Postgres.Durable().Start()
	Require(t, err)
	var fsync, commit string
	require.NoError(t, server.DB.QueryRowContext(t.Context(), "SELECT"+
		" current_setting('fsync'), current_setting('synchronous_commit')").Scan(&fsync, &commit))
	require.Equal(t, []string{"on", "on"}, []string{fsync, commit})
	require.NoError(t, server.Close())
}
