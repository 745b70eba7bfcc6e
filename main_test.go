package lockpipe_test

import (
	"os"
	"testing"

	"github.com/lockpipe/lockpipe/internal/servertest"
)

// holderVar has the nodes' URLs where the test binary is to be the program that
// TestLease_AStoppedHolderKnowsAtOnce_InRealTime stops.
const holderVar = "LOCKPIPE_TEST_HOLDER"

func TestMain(m *testing.M) {
	if urls := os.Getenv(holderVar); urls != "" {
		os.Exit(holderMain(urls))
	}
	if urls := os.Getenv(callerVar); urls != "" {
		os.Exit(callerMain(urls))
	}
	servertest.RunMoreAtOnce(3)
	code := m.Run()
	if closeExampleNodes != nil {
		_ = closeExampleNodes()
	}
	os.Exit(code)
}
