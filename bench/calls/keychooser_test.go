package calls

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Goal: the keys of a call are distinct and inside the key space, also if a call takes all of it.
func TestKeyChooser_KeysAreDistinct(t *testing.T) {
	for _, space := range []struct{ chosen, keys int }{
		{1, 1},
		{1, 9},
		{5, 5},
		{5, 6},
		{100, 1000},
	} {
		p := NewKeyChooser(1, 0)
		chosen := make([]int, space.chosen)
		for range 200 {
			p.Choose(chosen, space.keys)
			sorted := slices.Sorted(slices.Values(chosen))
			require.Len(t, slices.Compact(slices.Clone(sorted)), space.chosen)
			require.GreaterOrEqual(t, sorted[0], 0)
			require.Less(t, sorted[len(sorted)-1], space.keys)
		}
	}
}

// Goal: every key of a small space is chosen about as often as the others.
func TestKeyChooser_KeysAreUniform(t *testing.T) {
	const keys, perCall, calls = 10, 3, 20_000
	p := NewKeyChooser(7, 3)
	var seen [keys]int
	chosen := make([]int, perCall)
	for range calls {
		p.Choose(chosen, keys)
		for _, k := range chosen {
			seen[k]++
		}
	}
	for k, n := range seen {
		require.InEpsilon(t, calls*perCall/keys, n, 0.05, "key %d", k)
	}
}

// Goal: the same seed gives a worker the same keys again, and two workers different ones.
func TestKeyChooser_TheSeedRepeatsTheChoice(t *testing.T) {
	draw := func(seed uint64, worker int) []int {
		p := NewKeyChooser(seed, worker)
		chosen := make([]int, 20)
		p.Choose(chosen, 1_000_000)
		return chosen
	}
	require.Equal(t, draw(5, 1), draw(5, 1))
	require.NotEqual(t, draw(5, 1), draw(5, 2))
	require.NotEqual(t, draw(5, 1), draw(6, 1))
}
