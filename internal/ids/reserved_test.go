package ids

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The goal: a name of a client is found in Prefix+key exactly where it is there, wherever the
// Prefix ends. Searching the whole text is the plain version.
func TestReserved_IsFoundWhereverThePrefixEnds(t *testing.T) {
	for _, name := range reservedNames {
		require.True(t, strings.HasPrefix(name, Reserved))
	}
	for _, used := range []string{AdmittedKey, ProbeKey, FencesKey, LayoutsKey} {
		require.Contains(t, reservedNames, used)
	}
	plainly := func(full string) bool {
		for _, name := range reservedNames {
			if strings.Contains(full, name) {
				return true
			}
		}
		return false
	}
	var texts []string
	parts := append([]string{"lockpipe:", "lockpipe:x", "sku:42"}, reservedNames[:]...)
	for _, name := range parts {
		upper, cut := strings.ToUpper(name), name[:len(name)-1]
		for _, text := range []string{"", "sku", name[1:], cut, upper, "lockpipe:"} {
			texts = append(texts, text+name, name+text, text+"a"+name+"b"+text, text+"pipe:fences")
		}
	}
	found, free := 0, 0
	for _, text := range texts {
		for i := range len(text) + 1 {
			prefix, key := text[:i], text[i:]
			if plainly(prefix) {
				continue // NewReservedNames refuses it
			}
			names := NewReservedNames(prefix)
			name := names.In(key)
			require.Equal(t, plainly(text), name != "", "%q %q", prefix, key)
			require.Contains(t, text, name)
			if name != "" {
				found++
			} else {
				free++
			}
		}
	}
	require.Greater(t, min(found, free), 1000)
}

// The goal: a search for reserved names makes no garbage.
func TestReserved_AllocatesNothing(t *testing.T) {
	names := NewReservedNames("lock")
	const runs = 20_000 // what other tests leave running allocates too, but not once a run
	require.Zero(t, testing.AllocsPerRun(runs, func() {
		for _, key := range []string{"sku:42", "pipe:fencessku", "lockpipe:admitted"} {
			_ = names.In(key)
		}
	}))
}

func BenchmarkReserved(b *testing.B) {
	names := NewReservedNames("app:")
	for b.Loop() {
		_ = names.In("inventory:sku:0000042")
	}
}
