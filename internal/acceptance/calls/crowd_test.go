package calls

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: a call for a and b, whose key a another process holds for long, leaves b to the callers
// that want b alone. They get two thirds at least of the turns that they had before, and none waits
// for longer than 100 ms.
func TestWait_ASetThatWaitsForLongLeavesItsOtherKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 3)
		v.Latency(300 * time.Microsecond)
		c := v.Client(t)
		held := kit.Take(t, v.Client(t), "a", lockpipe.WithAutoExtend(time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			_, err := c.AcquireAll(ctx, []string{"a", "b"})
			require.Error(t, err)
		})
		var mu sync.Mutex
		var turns int
		var longest time.Duration
		for range 8 {
			all.Go(func() {
				for {
					start := time.Now()
					l, err := c.Acquire(ctx, "b")
					if err != nil {
						return
					}
					mu.Lock()
					turns, longest = turns+1, max(longest, time.Since(start))
					mu.Unlock()
					time.Sleep(time.Millisecond)
					kit.Release(t, l)
				}
			})
		}
		all.Wait()
		require.Greater(t, turns, 6400) // of 9600
		require.Less(t, longest, 100*time.Millisecond)
		kit.Release(t, held)
	})
}
