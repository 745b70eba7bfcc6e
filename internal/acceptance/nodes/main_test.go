// Package nodes tests what a Client does with its nodes, and what it says of them and of its
// configuration.
package nodes

import (
	"testing"

	"github.com/lockpipe/lockpipe/internal/servertest"
)

func TestMain(m *testing.M) {
	servertest.RunMoreAtOnce(3)
	m.Run()
}
