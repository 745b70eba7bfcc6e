// Package leases tests what a holder does with a lease, and what it is promised: its end,
// extensions, releases, handles and fences.
package leases

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
	servertest.RunMoreAtOnce(3)
	m.Run()
}
