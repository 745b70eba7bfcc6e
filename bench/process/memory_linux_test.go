package process

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// Goal: memory that is written to is resident.
func TestMemory_WrittenBytesAreResident(t *testing.T) {
	const size = 64 << 20
	debug.FreeOSMemory() // the block must not be where an earlier test's garbage is resident
	before := ResidentBytes()
	require.Positive(t, before)
	block := make([]byte, size)
	for i := range block {
		block[i] = 1
	}
	require.Greater(t, ResidentBytes(), before+size/2)
	runtime.KeepAlive(block)
}
