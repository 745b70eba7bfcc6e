package bench

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// Memory that is written to is resident.
func TestResidentBytesGrow(t *testing.T) {
	const size = 64 << 20
	debug.FreeOSMemory() // the block must not be where an earlier test's garbage is resident
	before := residentBytes()
	require.Positive(t, before)
	block := make([]byte, size)
	for i := range block {
		block[i] = 1
	}
	require.Greater(t, residentBytes(), before+size/2)
	runtime.KeepAlive(block)
}
