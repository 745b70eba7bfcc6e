package ids

import (
	"testing"
	"time"
	"unsafe"

	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// The goal: fence keys are behind the prefix, the keys stay what they are, and Lua counts the
// numbers in ones.
func TestFence_KeysAreBehindThePrefix(t *testing.T) {
	for _, keys := range [][]string{{"a"}, {"a", "b"}} {
		var k Keys
		k.Init("app:", keys, "to", "ken")
		require.Nil(t, k.Fence())
		before := time.Now()
		k.SetFence(before, 5, script.MaxFence)
		f := k.Fence()
		require.Equal(t, [2]int64{5, script.MaxFence}, f.Numbers)
		require.Equal(t, before, f.Before)
		require.Equal(t, []string{"5", "9007199254740991"}, []string{f.First, f.Last})
		require.Equal(t, "token", k.Token())
		require.Equal(t, len(keys), k.Len())
		for i, key := range keys {
			require.Equal(t, key, k.Key(i))
			require.Equal(t, "app:"+key, k.All()[i])
			require.Equal(t, "app:lockpipe:fence:"+key, f.FenceKeys[i])
		}
	}
}

// The goal: a single key without a fence has no memory for others or for a fence.
func TestKeys_ASingleKeyIsSmall(t *testing.T) {
	var k Keys
	k.Init("app:", []string{"a"}, "token", "")
	require.LessOrEqual(t, unsafe.Sizeof(k), uintptr(48))
	require.Nil(t, k.cold)
}
