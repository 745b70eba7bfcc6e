package lockpipetest

import (
	"sync"
	"testing"
)

// inProcessLogged lets StartT log once per test binary, not once per test.
var inProcessLogged sync.Once

// StartT is Start for a test. It fails the test at once on an error, and closes the nodes at the
// end of the test and its subtests. Without a redis-server it logs that once, loudly, and uses
// in-process nodes. If LOCKPIPE_REQUIRE_REDIS is set (to anything but 0), or LOCKPIPE_REDIS_SERVER
// names a program that is missing, it fails the test instead. It must be called from the goroutine
// of the test.
func StartT(t testing.TB, n int) *Nodes {
	t.Helper()
	if _, err := findRedisServer(); err != nil {
		if failure := missingFailure(err); failure != nil {
			t.Fatal(failure)
		}
		inProcessLogged.Do(func() {
			t.Logf("=== NO REDIS-SERVER (%v): tests use IN-PROCESS nodes, which are not Redis; "+
				"set %s=1 to make this a failure ===", err, requireVar)
		})
	}
	return startFor(t, n, Start)
}

// StartRealT is StartT for a test that needs a real redis-server: it calls RequireRedis first.
func StartRealT(t testing.TB, n int) *Nodes {
	t.Helper()
	RequireRedis(t)
	return startFor(t, n, Start)
}

// RequireRedis returns the path of the server program, for a test that starts it on its own. It
// skips the test, loudly, if there is no redis-server on the PATH. If LOCKPIPE_REQUIRE_REDIS is set
// (to anything but 0), or LOCKPIPE_REDIS_SERVER names a program that is missing, it fails the test
// instead. It must be called from the goroutine of the test.
func RequireRedis(t testing.TB) (program string) {
	t.Helper()
	program, err := findRedisServer()
	if err == nil {
		return program
	}
	if failure := missingFailure(err); failure != nil {
		t.Fatal(failure)
	}
	t.Skipf("=== SKIPPED, NOT TESTED: no redis-server (%v); set %s=1 to make this a failure ===",
		err, requireVar)
	return ""
}

func startFor(t testing.TB, n int, start func(int) (*Nodes, error)) *Nodes {
	t.Helper()
	nodes, err := start(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nodes.Close(); err != nil {
			t.Error(err)
		}
	})
	return nodes
}
