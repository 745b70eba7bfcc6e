package bench

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A call's keys are distinct and inside the key space, also where a call takes all of it.
func TestPickedKeysAreDistinct(t *testing.T) {
	for _, space := range []struct{ chosen, keys int }{
		{1, 1},
		{1, 9},
		{5, 5},
		{5, 6},
		{100, 1000},
	} {
		p := newPicker(1, 0)
		chosen := make([]int, space.chosen)
		for range 200 {
			p.pick(chosen, space.keys)
			sorted := slices.Sorted(slices.Values(chosen))
			require.Len(t, slices.Compact(slices.Clone(sorted)), space.chosen)
			require.GreaterOrEqual(t, sorted[0], 0)
			require.Less(t, sorted[len(sorted)-1], space.keys)
		}
	}
}

// Every key of a small space turns up about as often as the others.
func TestPickedKeysAreUniform(t *testing.T) {
	const keys, perCall, calls = 10, 3, 20_000
	p := newPicker(7, 3)
	var seen [keys]int
	chosen := make([]int, perCall)
	for range calls {
		p.pick(chosen, keys)
		for _, k := range chosen {
			seen[k]++
		}
	}
	for k, n := range seen {
		require.InEpsilon(t, calls*perCall/keys, n, 0.05, "key %d", k)
	}
}

// The same seed gives a worker the same keys again, and two workers different ones.
func TestSeedRepeatsTheChoice(t *testing.T) {
	draw := func(seed uint64, worker int) []int {
		p := newPicker(seed, worker)
		chosen := make([]int, 20)
		p.pick(chosen, 1_000_000)
		return chosen
	}
	require.Equal(t, draw(5, 1), draw(5, 1))
	require.NotEqual(t, draw(5, 1), draw(5, 2))
	require.NotEqual(t, draw(5, 1), draw(6, 1))
}
