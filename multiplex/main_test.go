package multiplex

import (
	"testing"

	"github.com/lockpipe/lockpipe/internal/servertest"
)

func TestMain(m *testing.M) {
	servertest.RunMoreAtOnce(4)
	m.Run()
}

// notShort skips a test that takes long where -short is given. It says what is then not tested.
func notShort(t *testing.T, what string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short, so this is not tested: " + what)
	}
}
