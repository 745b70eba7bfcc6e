package lockpipe

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The goal: a lease and its claim are one piece of memory: with its keys, a lease is two.
func TestLease_HasOnePieceOfMemoryWithItsClaim(t *testing.T) {
	const runs = 20_000 // what clients of earlier tests still allocate is no piece each
	require.LessOrEqual(t, testing.AllocsPerRun(runs, func() { _, _, _ = newLease(true) }), 1.0)
}
