package bench

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// The benchmarks need real nodes: of nodes in this process they would say little.

// BenchmarkCallers is acquire and release of one key on five nodes, by so many callers. One
// op is one lock.
func BenchmarkCallers(b *testing.B) {
	nodes := servertest.Start(b, 5)
	for _, callers := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			acquireRelease(b, nodes,
				callers, 1)
		})
	}
}

// BenchmarkKeys is acquire and release of so many keys as one lease on five nodes, by eight
// callers. One op is one call.
func BenchmarkKeys(b *testing.B) {
	nodes := servertest.Start(b, 5)
	for _, keys := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			acquireRelease(b, nodes, 8,
				keys)
		})
	}
}

// BenchmarkNodes is acquire and release of one key on so many nodes, by 64 callers. One op is one
// lock.
func BenchmarkNodes(b *testing.B) {
	for _, n := range []int{1, 3, 5, 7} {
		nodes := servertest.Start(b, n)
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) { acquireRelease(b, nodes, 64, 1) })
		require.NoError(b, nodes.Close())
	}
}

// acquireRelease has callers share b.N calls. No two callers ever ask for the same key.
func acquireRelease(b *testing.B, nodes *lockpipetest.Nodes, callers, keys int) {
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: nodes.URLs(), NodeTimeout: time.Second,
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(b, err)
	defer func() { require.NoError(b, client.Close(b.Context())) }()
	require.NoError(b, lockUnlock(b.Context(), client, []string{"ready"}))
	names := make([][]string, callers)
	for c := range names {
		for k := range keys {
			names[c] = append(names[c], "bench:"+strconv.Itoa(c)+":"+strconv.Itoa(k))
		}
	}

	before := client.Stats()
	b.ReportAllocs()
	b.ResetTimer()
	var calls atomic.Int64
	var failed atomic.Pointer[error]
	var working sync.WaitGroup
	for c := range callers {
		working.Go(func() {
			for calls.Add(1) <= int64(b.N) {
				if err := lockUnlock(b.Context(), client, names[c]); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	working.Wait()
	b.StopTimer()
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
	after := client.Stats()
	b.ReportMetric(float64(b.N*keys)/b.Elapsed().Seconds(), "locks/s")
	b.ReportMetric(per(float64(after.Operations-before.Operations),
		float64(after.Flushes-before.Flushes)), "ops/flush")
}

// lockUnlock is one call. A caller of one key uses the methods for one key.
func lockUnlock(ctx context.Context, client *lockpipe.Client, names []string) error {
	var lease *lockpipe.Lease
	var err error
	if len(names) == 1 {
		lease, err = client.TryAcquire(ctx, names[0])
	} else {
		lease, err = client.TryAcquireAll(ctx, names)
	}
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}
