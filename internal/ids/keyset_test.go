package ids

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The goal: a fence leaves the keys what they are, and lists each of their members once.
func TestFence_HasTheMembersOfTheKeys(t *testing.T) {
	const same1, same2 = "k21", "k301" // of one member
	require.Equal(t, FenceMember(same1), FenceMember(same2))
	for _, keys := range [][]string{{"a"}, {"a", "b"}, {same1, "a", same2}} {
		var k Keys
		k.Init("app:", keys, "to", "ken")
		require.Nil(t, k.Fence())
		k.SetFence(5, MaxFence)
		f := k.Fence()
		require.Equal(t, [2]int64{5, MaxFence}, f.Numbers)
		require.Equal(t, "token", k.Token())
		require.Equal(t, "app:", k.Prefix())
		require.Equal(t, len(keys), k.Len())
		for i, key := range keys {
			require.Equal(t, key, k.Key(i))
			require.Equal(t, "app:"+key, k.All()[i])
			require.Contains(t, f.Members, FenceMember(key))
		}
		require.Len(t, f.Members, min(len(keys), 2))
	}
}

// The goal: all versions of the library agree on the member of a key.
func TestFenceMember_IsFixed(t *testing.T) {
	for key, member := range map[string]uint16{
		"": 0x811c ^ 0x9dc5, "a": 0xe40c ^ 0x292c, "sku:42": 0x94c6 ^ 0xda0a,
	} {
		require.Equal(t, member, FenceMember(key), key)
	}
}

// The goal: a single key without a fence has no memory for others or for a fence.
func TestKeys_ASingleKeyIsSmall(t *testing.T) {
	var k Keys
	k.Init("app:", []string{"a"}, "token", "")
	require.LessOrEqual(t, unsafe.Sizeof(k), uintptr(48))
	require.Nil(t, k.cold)
}
