package bench

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/process"
	"github.com/lockpipe/lockpipe/bench/series"
	"github.com/lockpipe/lockpipe/internal/servertest"
)

// waitingClients returns clients of five nodes that are connected.
func waitingClients(b *testing.B, n int) (clients []*lockpipe.Client) {
	nodes := servertest.Start(b, 5)
	for range n {
		client, err := lockpipe.New(lockpipe.Config{
			Nodes: nodes.URLs(), NodeTimeout: time.Second,
			Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, client.Close(context.Background())) })
		require.NoError(b, lockUnlock(b.Context(), client, []string{"ready"}))
		clients = append(clients, client)
	}
	return clients
}

// BenchmarkWaiters is what a thousand callers cost that wait for a key of another process: the
// operations sent to each node, and the CPU time. One op is a second of that, so
// -benchtime 30x is half a minute.
func BenchmarkWaiters(b *testing.B) {
	const waiters = 1000
	clients := waitingClients(b, 2)
	held, err := clients[0].Acquire(b.Context(), "key", lockpipe.WithAutoExtend(time.Hour))
	require.NoError(b, err)
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(b.Context())
	for range waiters {
		all.Go(func() { _, _ = clients[1].Acquire(ctx, "key") })
	}
	time.Sleep(time.Second) // the first attempts are over
	operations, cpu, start := clients[1].Stats().Operations, process.CPUTime(), time.Now()
	b.ResetTimer()
	time.Sleep(time.Duration(b.N) * time.Second)
	b.StopTimer()
	seconds := time.Since(start).Seconds()
	b.ReportMetric(float64(clients[1].Stats().Operations-operations)/5/seconds, "operations/node/s")
	b.ReportMetric((process.CPUTime()-cpu).Seconds()/seconds*100, "cpu-%")
	cancel()
	all.Wait()
	require.NoError(b, held.Release(b.Context()))
}

// BenchmarkWake is how long it takes from the call of Release until a caller in another process has
// the key that it waits for, and for comparison how long an acquire takes without contention. One
// op is one such change of holders.
func BenchmarkWake(b *testing.B) {
	clients := waitingClients(b, 2)
	wake, uncontended := series.NewHistogram(), series.NewHistogram()
	for range b.N {
		held, err := clients[0].Acquire(b.Context(), "key")
		require.NoError(b, err)
		got := make(chan time.Time)
		go func() {
			l, err := clients[1].Acquire(b.Context(), "key")
			at := time.Now()
			if err == nil {
				err = l.Release(b.Context())
			}
			if err != nil {
				b.Error(err)
			}
			got <- at
		}()
		time.Sleep(20 * time.Millisecond) // it waits by now
		start := time.Now()
		require.NoError(b, held.Release(b.Context()))
		wake.Record((<-got).Sub(start))
		start = time.Now()
		l, err := clients[0].Acquire(b.Context(), "another")
		require.NoError(b, err)
		uncontended.Record(time.Since(start))
		require.NoError(b, l.Release(b.Context()))
	}
	b.ReportMetric(wake.Latency().P50*1000, "wake-p50-us")
	b.ReportMetric(wake.Latency().P99*1000, "wake-p99-us")
	b.ReportMetric(uncontended.Latency().P50*1000, "acquire-p50-us")
}
