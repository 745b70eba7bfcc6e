package check

import (
	"os"
	"testing"

	"github.com/lockpipe/lockpipe/internal/servertest"
)

func TestMain(m *testing.M) {
	servertest.RunMoreAtOnce(3)
	os.Exit(m.Run())
}
