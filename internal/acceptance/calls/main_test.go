// Package calls tests the calls of a Client that acquire: what they grant, how they wait, and how
// they end.
package calls

import (
	"os"
	"testing"

	"github.com/lockpipe/lockpipe/internal/servertest"
)

func TestMain(m *testing.M) {
	if urls := os.Getenv(callerVar); urls != "" {
		os.Exit(callerMain(urls))
	}
	servertest.RunMoreAtOnce(3)
	m.Run()
}
