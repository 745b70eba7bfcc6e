// Package servertest starts the servers that lockpipe's own tests lock on.
package servertest

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
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

// RealTime skips a test of real time, whose verdict depends on how fast the machine is, unless
// LOCKPIPE_REAL_TIME is set: .ci/realtime sets it, and runs hardly anything beside the test.
func RealTime(t testing.TB) {
	t.Helper()
	if os.Getenv("LOCKPIPE_REAL_TIME") == "" {
		t.Skip("a test of real time, which bash .ci/run realtime runs")
	}
}

// RunMoreAtOnce lets more parallel tests run than there are processors: most of them wait for
// servers. With the race detector they compute more than they wait. So perProcessor is how many run
// then, and without it twice as many do. A flag on the command line goes before it. Call it in
// TestMain.
func RunMoreAtOnce(perProcessor int) {
	flag.Parse()
	parallel := flag.Lookup("test.parallel")
	if parallel.Value.String() != parallel.DefValue {
		return
	}
	if !detectsRaces() {
		perProcessor *= 2
	}
	_ = parallel.Value.Set(strconv.Itoa(min(16, perProcessor*runtime.GOMAXPROCS(0))))
}

// detectsRaces reports whether this program was built with the race detector.
func detectsRaces() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil &&
		slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func skipIfShort(t testing.TB) {
	t.Helper()
	if testing.Short() && os.Getenv("LOCKPIPE_REDIS_SERVER") == "" {
		t.Skip("-short starts no server: set LOCKPIPE_REDIS_SERVER=redis-server to test with one")
	}
}
