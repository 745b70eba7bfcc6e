package groups

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
)

// The goal: clients that want the same keys of several groups, in different orders, wait for each
// other for a bounded time. Neither starves.
func TestGroups_ContendersInAnyOrderWaitForABoundedTime(t *testing.T) {
	t.Parallel()
	for _, latency := range []time.Duration{0, time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			v := kit.NewFakeNodes(t, 3*kit.GroupSize)
			v.Latency(latency)
			var all sync.WaitGroup
			for i := range 3 {
				c := v.Client(t, kit.InGroups(kit.GroupSize))
				keys := kit.OneOfEach(c, "k", "a", "b", "c")
				if i == 1 {
					slices.Reverse(keys)
				}
				all.Go(func() { contend(t, c, keys[i%2:]) })
			}
			all.Wait()
			time.Sleep(time.Second)
			v.NothingLeft(t)
		})
	}
}

// contend takes and gives keys many times, and wants no call to wait for long.
func contend(t *testing.T, c *lockpipe.Client, keys []string) {
	for range 30 {
		began := time.Now()
		l, err := c.AcquireAll(t.Context(), keys)
		if err != nil {
			t.Error(err)
			return
		}
		if waited := time.Since(began); waited > 5*time.Second {
			t.Errorf("it waited %v", waited)
		}
		time.Sleep(3 * time.Millisecond)
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
