// Package groups tests a Client with several groups of nodes.
package groups

import (
	"testing"

	"github.com/lockpipe/lockpipe/internal/servertest"
)

func TestMain(m *testing.M) {
	servertest.RunMoreAtOnce(3)
	m.Run()
}
