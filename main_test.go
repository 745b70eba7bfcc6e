package lockpipe_test

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if closeExampleNodes != nil {
		_ = closeExampleNodes()
	}
	os.Exit(code)
}
