package reserved

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The goal: a name of a client is found in Prefix+key exactly where it is there, wherever the
// Prefix ends. Searching the whole text is the plain version.
func TestReserved_IsFoundWhereverThePrefixEnds(t *testing.T) {
	for _, name := range all {
		require.True(t, strings.HasPrefix(name, Own))
	}
	for _, used := range []string{Admitted, Probe, Fence, Layouts} {
		require.Contains(t, all, used)
	}
	plainly := func(full string) bool {
		for _, name := range all {
			if strings.Contains(full, name) {
				return true
			}
		}
		return false
	}
	var texts []string
	for _, name := range append([]string{"lockpipe:", "lockpipe:x", "sku:42"}, all[:]...) {
		upper, cut := strings.ToUpper(name), name[:len(name)-1]
		for _, text := range []string{"", "sku", name[1:], cut, upper, "lockpipe:"} {
			texts = append(texts, text+name, name+text, text+"a"+name+"b"+text, text+"pipe:fence:")
		}
	}
	found, free := 0, 0
	for _, text := range texts {
		for i := range len(text) + 1 {
			prefix, key := text[:i], text[i:]
			if plainly(prefix) {
				continue // New refuses it
			}
			names := New(prefix)
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
	names := New("lock")
	const runs = 20_000 // what other tests leave running allocates too, but not once a run
	require.Zero(t, testing.AllocsPerRun(runs, func() {
		for _, key := range []string{"sku:42", "pipe:fence:sku", "lockpipe:admitted"} {
			_ = names.In(key)
		}
	}))
}

func BenchmarkReserved(b *testing.B) {
	names := New("app:")
	for b.Loop() {
		_ = names.In("inventory:sku:0000042")
	}
}
