package lockpipe_test

import (
	"os"
	"testing"
)

// holderVar has the nodes' URLs where the test binary is to be the program that
// TestAStoppedHolderKnowsAtOnce stops.
const holderVar = "LOCKPIPE_TEST_HOLDER"

func TestMain(m *testing.M) {
	if urls := os.Getenv(holderVar); urls != "" {
		os.Exit(holderMain(urls))
	}
	os.Exit(m.Run())
}
