package calls

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: if only one process wants the keys, every call comes to an end soon, also if the nodes
// push no changes. The calls want one key or some, sync and async, wait or give up, release or let
// the time run out. A retry delay of 300 ms is for those that split the votes of the nodes.
func TestWait_NoReleaseIsMissed(t *testing.T) {
	t.Parallel()
	rounds := 10
	if testing.Short() {
		rounds = 2
	}
	for range rounds {
		synctest.Test(t, func(t *testing.T) {
			v := kit.NewFakeNodes(t, 3)
			v.Latency(500 * time.Microsecond)
			c := v.Client(t)
			var mu sync.Mutex
			var longest time.Duration
			var all sync.WaitGroup
			for range 6 {
				all.Go(func() {
					for range 40 {
						waited := missNothing(t, c)
						mu.Lock()
						longest = max(longest, waited)
						mu.Unlock()
					}
				})
			}
			all.Wait()
			require.Less(t, longest, 2*time.Second)
			time.Sleep(time.Minute)
			require.True(t, kit.QueueIdle(c, "a", "b", "c"))
			v.OnlyCompanions(t)
		})
	}
}

// missNothing takes some keys, and returns for how long it waited for them.
func missNothing(t *testing.T, c *lockpipe.Client) time.Duration {
	keys := []string{"a", "b", "c"}
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys = keys[:1+rand.N(3)]
	opts := []lockpipe.Option{lockpipe.WithRetryDelay(300*time.Millisecond, 300*time.Millisecond)}
	if rand.N(4) == 0 {
		opts = append(opts, lockpipe.WithFencing())
	}
	if rand.N(8) == 0 {
		opts = append(opts, lockpipe.WithTTL(20*time.Millisecond))
	}
	ctx := t.Context()
	if rand.N(4) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rand.N(20*time.Millisecond))
		defer cancel()
	}
	acquire := c.AcquireAll
	switch rand.N(8) {
	case 0:
		acquire = c.TryAcquireAll
	case 1, 2, 3:
		acquire = kit.WaitForAsync(c)
	}
	start := time.Now()
	l, err := acquire(ctx, keys, opts...)
	waited := time.Since(start)
	if err != nil {
		if !kit.AnyOf(err, lockpipe.ErrHeld, lockpipe.ErrNoQuorum, context.DeadlineExceeded) {
			t.Error(err)
		}
		return waited
	}
	time.Sleep(rand.N(2 * time.Millisecond))
	extended := rand.N(4) == 0
	if extended {
		go func() { _ = l.Extend(t.Context(), 10*time.Second) }()
		time.Sleep(rand.N(time.Millisecond))
	}
	if rand.N(8) > 0 || extended || time.Until(l.Until()) > time.Second {
		_ = l.Release(t.Context())
	}
	return waited
}
