package lockpipe

import (
	"testing"
	"unsafe"

	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/stretchr/testify/require"
)

// The goal: a lease is one piece of memory with its claim, and with the attempts to acquire and to
// release it. With its keys, a lock is two.
func TestLease_HasOnePieceOfMemoryWithItsClaimAndAttempts(t *testing.T) {
	for _, with := range []locker.Memory{locker.NoClaim, locker.WithClaim, locker.WithAttempts} {
		const runs = 20_000 // what clients of earlier tests still allocate is no piece each
		require.LessOrEqual(t, testing.AllocsPerRun(runs, func() { _, _, _ = newLease(with) }), 1.0)
	}
}

// The goal: these pieces fill the runtime's sizes of 256 and 768 bytes, with its header of eight.
// One field more costs each lease 32 or 128 bytes.
func TestLease_FillsItsPieceOfMemory(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(leaseAnd[parts.Claim]{}), uintptr(256))
	require.LessOrEqual(t, unsafe.Sizeof(leaseAnd[parts.ClaimAndAttempts]{}), uintptr(768-8))
}
