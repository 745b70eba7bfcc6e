// Package servertest starts the servers that lockpipe's own tests lock on.
package servertest

import (
	"os"
	"testing"

	"github.com/lockpipe/lockpipe/lockpipetest"
)

// Start starts n servers and ends them with the test, as lockpipetest.StartRealT does. It skips the
// tests that Program skips.
func Start(t testing.TB, n int) *lockpipetest.Nodes {
	t.Helper()
	skipIfShort(t)
	return lockpipetest.StartRealT(t, n)
}

// Program returns the path of the server program, as lockpipetest.RequireRedis does. With -short it
// skips the test, unless LOCKPIPE_REDIS_SERVER names the program: a server costs more time than
// most tests.
func Program(t testing.TB) string {
	t.Helper()
	skipIfShort(t)
	return lockpipetest.RequireRedis(t)
}

func skipIfShort(t testing.TB) {
	t.Helper()
	if testing.Short() && os.Getenv("LOCKPIPE_REDIS_SERVER") == "" {
		t.Skip("-short starts no server: set LOCKPIPE_REDIS_SERVER=redis-server to test with one")
	}
}
