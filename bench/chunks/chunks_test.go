package chunks

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Goal: each number is in one chunk, and no chunk is larger than its size.
func TestDo_EachNumberIsInOneChunk(t *testing.T) {
	for _, n := range []int{0, 1, 9, 10, 11, 407} {
		var mu sync.Mutex
		seen := make([]int, n)
		require.NoError(t, Do(n, 10, 4, func(chunk, first, end int) error {
			mu.Lock()
			defer mu.Unlock()
			assert.Equal(t, 10*chunk, first)
			assert.LessOrEqual(t, end-first, 10)
			for i := first; i < end; i++ {
				seen[i]++
			}
			return nil
		}))
		for i, times := range seen {
			require.Equal(t, 1, times, i)
		}
	}
}

// Goal: the first error ends the work and is returned.
func TestDo_AnErrorEndsTheWork(t *testing.T) {
	failed := errors.New("no")
	var calls atomic.Int64
	require.Equal(t, failed, Do(1_000_000, 1, 4, func(chunk, _, _ int) error {
		calls.Add(1)
		if chunk == 2 {
			return failed
		}
		return nil
	}))
	require.Less(t, calls.Load(), int64(1_000_000))
}
