// Package servertest starts the servers that lockpipe's own tests lock on.
package servertest

import (
	"os"
	"testing"

	"github.com/lockpipe/lockpipe/lockpipetest"
)

// Start starts n servers and ends them with the test, as lockpipetest.StartRealT does. With -short
// it skips the test, unless LOCKPIPE_REDIS_SERVER names the program to test with: a server costs
// more time than most tests.
func Start(t testing.TB, n int) *lockpipetest.Nodes {
	t.Helper()
	if testing.Short() && os.Getenv("LOCKPIPE_REDIS_SERVER") == "" {
		t.Skip("-short starts no server: set LOCKPIPE_REDIS_SERVER=redis-server to test with one")
	}
	return lockpipetest.StartRealT(t, n)
}
