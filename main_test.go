package lockpipe_test

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// holderVar has the nodes' URLs where the test binary is to be the program that
// TestLease_AStoppedHolderKnowsAtOnce_InRealTime stops.
const holderVar = "LOCKPIPE_TEST_HOLDER"

func TestMain(m *testing.M) {
	if urls := os.Getenv(holderVar); urls != "" {
		os.Exit(holderMain(urls))
	}
	runMoreAtOnce()
	code := m.Run()
	if closeExampleNodes != nil {
		_ = closeExampleNodes()
	}
	os.Exit(code)
}

// runMoreAtOnce lets more parallel tests run than there are processors: most of them wait for real
// servers. A flag on the command line goes before it.
func runMoreAtOnce() {
	flag.Parse()
	parallel := flag.Lookup("test.parallel")
	if parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set(strconv.Itoa(min(16, 3*runtime.GOMAXPROCS(0))))
	}
}
