package refusals

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: the memory of refused keys is bounded, and a key is forgotten.
func TestKeys_AreBoundedAndForgotten(t *testing.T) {
	var k Keys
	now := time.Now()
	require.False(t, k.HasAny([]string{"a"}, now))
	k.Add("a", now)
	require.True(t, k.HasAny([]string{"b", "a"}, now.Add(remembered-1)))
	require.False(t, k.HasAny([]string{"b"}, now))
	require.False(t, k.HasAny([]string{"a"}, now.Add(remembered)))
	require.False(t, k.known.Load())
	for i := range 3*maxKeys + 1 {
		k.Add(strconv.Itoa(i), now)
		require.LessOrEqual(t, len(k.until), maxKeys)
	}
	require.True(t, k.HasAny([]string{strconv.Itoa(3 * maxKeys)}, now))
}
