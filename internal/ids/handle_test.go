package ids

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The goal: what a handle says can be read, whatever bytes the keys have. With another prefix, a
// missing or a changed character it can't.
func TestHandle_IsReadAsAWhole(t *testing.T) {
	var s Tokens
	for _, keys := range [][]string{
		{"a"}, {"sku:42", "sku:43"}, {"\x00\xff", "é", strings.Repeat("k", 300)},
	} {
		for _, fence := range []int64{0, 1, MaxFence} {
			want := Handle{Keys: keys, Token: made(&s, "web-3:4711"), Fence: fence}
			want.Sets = []int64{-1 << 63, 7}
			text := want.Text("app:")
			require.Regexp(t, `^lp1\.[A-Za-z0-9_-]+$`, text)
			got, ok := ParseHandle(text, "app:")
			require.True(t, ok)
			require.Equal(t, want, got)
			for i := range text {
				_, ok = ParseHandle(text[:i], "app:")
				require.False(t, ok, "%d characters", i)
				changed := []byte(text)
				changed[i] ^= 1
				_, ok = ParseHandle(string(changed), "app:")
				require.False(t, ok, "character %d changed", i)
			}
			for _, prefix := range []string{"", "app", "other:"} {
				_, ok = ParseHandle(text, prefix)
				require.False(t, ok, prefix)
			}
		}
	}
	for _, wrong := range []Handle{
		{Keys: []string{"a"}, Token: "short"},
		{Token: made(&s, "")},
		{Keys: []string{"a"}, Token: Marked(made(&s, ""))},
		{Keys: []string{"a"}, Token: made(&s, ""), Fence: MaxFence + 1},
	} {
		_, ok := ParseHandle(wrong.Text(""), "")
		require.False(t, ok, "%+v", wrong)
	}
}

// FuzzParseHandle: no text makes it panic, and what it reads has the text that it was read from.
func FuzzParseHandle(f *testing.F) {
	var s Tokens
	h := Handle{Keys: []string{"a", "b"}, Token: made(&s, "me"), Fence: 7, Sets: []int64{1, 2}}
	f.Add(h.Text(""), "")
	f.Add("lp1.", "x")
	f.Add("lp1.AAAAAAAAAAAAAAAAAAAA", "")
	f.Fuzz(func(t *testing.T, text, prefix string) {
		if got, ok := ParseHandle(text, prefix); ok {
			again, ok := ParseHandle(got.Text(prefix), prefix)
			require.True(t, ok)
			require.Equal(t, got, again)
		}
	})
}
