package check

import (
	"testing"

	"github.com/lockpipe/lockpipe/internal/servertest"
)

func TestMain(m *testing.M) {
	servertest.RunMoreAtOnce(3)
	m.Run()
}
