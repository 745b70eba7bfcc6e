package fence_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockpipe/lockpipe/fence"
	"github.com/stretchr/testify/require"
)

// The goal: only what is above all that was allowed for the same key is allowed, and the rest is
// counted.
func TestOnlyHigherFencesAreAllowed(t *testing.T) {
	var c fence.Checker
	for _, step := range []struct {
		key   string
		fence int64
		want  bool
	}{
		{"a", 0, false},
		{"a", 5, true},
		{"a", 5, false},
		{"b", 5, true},
		{"a", 4, false},
		{"a", 7, true},
		{"a", 6, false},
		{"b", 6, true},
		{"b", -1, false},
	} {
		require.Equal(t, step.want, c.Allow(step.key, step.fence), "%+v", step)
	}
	require.Equal(t, uint64(5), c.Regressions())
}

// The goal: of many who come at once with the same fence one is allowed.
func TestOneOfManyIsAllowed(t *testing.T) {
	var c fence.Checker
	var allowed atomic.Int64
	var all sync.WaitGroup
	for i := range 800 {
		all.Go(func() {
			if c.Allow(strconv.Itoa(i%10), 1) {
				allowed.Add(1)
			}
		})
	}
	all.Wait()
	require.Equal(t, int64(10), allowed.Load())
	require.Equal(t, uint64(790), c.Regressions())
}
