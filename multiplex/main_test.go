package multiplex

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// TestMain lets more parallel tests run than there are processors: most of them wait for real
// servers. A flag on the command line goes before it.
func TestMain(m *testing.M) {
	flag.Parse()
	parallel := flag.Lookup("test.parallel")
	if parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set(strconv.Itoa(min(16, 4*runtime.GOMAXPROCS(0))))
	}
	os.Exit(m.Run())
}

// notShort skips a test that takes long where -short is given. It says what is then not tested.
func notShort(t *testing.T, what string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short, so this is not tested: " + what)
	}
}
