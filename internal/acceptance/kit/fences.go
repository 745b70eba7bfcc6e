package kit

import (
	"testing"
	"testing/synctest"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/fence"
	"github.com/stretchr/testify/require"
)

// Fenced takes key with fencing, has it checked, and gives it back everywhere.
func Fenced(t *testing.T, c *lockpipe.Client, seen *fence.Checker, keys ...string) int64 {
	t.Helper()
	l, err := c.TryAcquireAll(t.Context(), keys, lockpipe.WithFencing())
	require.NoError(t, err)
	return Passed(t, seen, l)
}

// Passed has the fence of a lease checked for all of its keys, and releases it.
func Passed(t *testing.T, seen *fence.Checker, l *lockpipe.Lease) int64 {
	t.Helper()
	for _, k := range l.Keys() {
		require.True(t, seen.Allow(k, l.Fence()), "%d is not above the fences before it of %s",
			l.Fence(), k)
	}
	Release(t, l)
	synctest.Wait()
	return l.Fence()
}
