package nodes

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

const (
	slowCallers = 50
	slowRounds  = 60
	// All rounds together last until a silent connection is given up, and longer.
	slowPause = 50 * time.Millisecond
	// As long may a node that hangs still read what is decided without it.
	unreadFor = 100 * time.Millisecond
)

// crowd lets many callers take and release keys of their own, and returns the most goroutines and
// the most attempts that waited for node 0 at any time, and how long the slowest call took. It is
// called in a bubble.
func crowd(t *testing.T, c *lockpipe.Client) (goroutines, pending int, slowest time.Duration) {
	t.Helper()
	var callers sync.WaitGroup
	var mu sync.Mutex
	for i := range slowCallers {
		callers.Go(func() {
			for range slowRounds {
				begin := time.Now()
				l, err := c.TryAcquire(context.Background(), fmt.Sprint("k:", i))
				if err == nil {
					err = l.Release(context.Background())
				}
				took := time.Since(begin)
				mu.Lock()
				if err != nil {
					t.Error(err)
				}
				slowest = max(slowest, took)
				goroutines, pending = max(goroutines, runtime.NumGoroutine()),
					max(pending, c.Nodes()[0].Pending)
				mu.Unlock()
				time.Sleep(slowPause)
			}
		})
	}
	callers.Wait()
	return goroutines, pending, slowest
}

// The goal: one node of five that hangs, or answers late, costs the callers no time. It causes no
// goroutines that wait, and no queue that grows with the calls. The client does not send it what is
// no longer wanted. This test is not parallel: it counts all goroutines.
func TestNodes_ASlowOneCostsNothing(t *testing.T) {
	kit.SkipIfShort(t, "a node that hangs or is late under load")
	const late = 30 * time.Millisecond
	var usual int
	kit.InBubble(t, 5, func(t *testing.T, _ *kit.FakeNodes, c *lockpipe.Client) {
		usual, _, _ = crowd(t, c)
	})
	check := func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		t.Helper()
		goroutines, pending, slowest := crowd(t, c)
		require.LessOrEqual(t, goroutines, usual+40, "four flushes under way, and connections "+
			"that are given up")
		require.LessOrEqual(t, pending, 2*slowCallers*int(unreadFor/slowPause+2),
			"an acquire and a release for each caller and pause")
		require.Zero(t, slowest)
		v.Speak(0)
		time.Sleep(10 * time.Second)
		v.NothingLeft(t)
	}
	t.Run("silent", func(t *testing.T) {
		kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			v.Silence(0)
			check(t, v, c)
			sent := v.Executed(0, "SET") + v.Executed(0, "EVALSHA")
			require.Less(t, sent, slowCallers*slowRounds/4, "what nobody wanted any more was sent")
		})
	})
	t.Run("late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			v := kit.NewFakeNodes(t, 5)
			v.Nodes[0].Latency = late
			check(t, v, v.Client(t))
		})
	})
}
