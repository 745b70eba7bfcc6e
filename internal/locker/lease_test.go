package locker

import (
	"testing"
	"time"
	"unsafe"

	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/multiplex"
	"github.com/stretchr/testify/require"
)

// The goal: a lease is one piece of memory with its claim, and with the attempts to acquire and to
// release it. Its keys are a second one, also without fencing.
func TestLease_TakesTwoPiecesOfMemory(t *testing.T) {
	k := newLocker(t, []string{"node:1"}, awake, hangingDial)
	keys := []string{"k"}
	for _, o := range []Options{{}, {MaxHold: time.Hour}} {
		const runs = 20_000 // what lockers of earlier tests still allocate is no piece each
		pieces := testing.AllocsPerRun(runs, func() { k.newLease(&o, keys, 0, 0) })
		require.LessOrEqual(t, pieces, 2.0)
	}
}

// The goal: these pieces fill the runtime's sizes of 256 and 768 bytes, with its header of eight.
// One field more costs each lease 32 or 128 bytes.
func TestLease_FillsItsPieceOfMemory(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Lease{})+unsafe.Sizeof(parts.Claim{}), uintptr(256))
	claim := unsafe.Sizeof(parts.Claim{}) + unsafe.Sizeof(multiplex.Attempts{})
	require.LessOrEqual(t, unsafe.Sizeof(Lease{})+claim, uintptr(768-8))
}
