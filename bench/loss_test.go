package bench

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/series"
	"github.com/lockpipe/lockpipe/internal/servertest"
)

// BenchmarkLossNotice is how late its holder is notified that a lease has ended which nobody
// extends: by the lease's channel, and by OnLost. So many leases of 1 to 2 s are held at the same
// time. One op is one lease.
func BenchmarkLossNotice(b *testing.B) {
	nodes := servertest.Start(b, 3)
	for _, leases := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("leases=%d", leases), func(b *testing.B) {
			done, onLost := newNotices(), newNotices()
			client, err := lockpipe.New(lockpipe.Config{
				Nodes: nodes.URLs(), NodeTimeout: time.Second,
				Logger: slog.New(slog.DiscardHandler),
				OnLost: func(l *lockpipe.Lease, _ error) { onLost.late(l.Key()) },
			})
			require.NoError(b, err)
			defer func() { require.NoError(b, client.Close(b.Context())) }()
			prefix := rand.Text() // a master may still have the keys of the run before
			for n := 0; n < b.N; {
				for range min(leases, b.N-n) {
					n++
					key := prefix + strconv.Itoa(n)
					l, err := client.TryAcquire(b.Context(), key, lockpipe.WithTTL(time.Second+
						mathrand.N(time.Second)))
					require.NoError(b, err)
					done.expect(key, l.Until())
					onLost.expect(key, l.Until())
					go func() {
						<-l.Done()
						done.late(key)
					}()
				}
				done.all.Wait()
				onLost.all.Wait()
			}
			done.report(b, "done")
			onLost.report(b, "onlost")
		})
	}
}

// notices is how late notices came.
type notices struct {
	all sync.WaitGroup

	mu      sync.Mutex // guards all below
	until   map[string]time.Time
	latency series.Histogram
}

func newNotices() *notices {
	return &notices{until: map[string]time.Time{}, latency: series.NewHistogram()}
}

func (n *notices) expect(key string, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.until[key] = until
	n.all.Add(1)
}

func (n *notices) late(key string) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.latency.Record(now.Sub(n.until[key]))
	n.all.Done()
}

func (n *notices) report(b *testing.B, name string) {
	s := n.latency.Latency()
	b.ReportMetric(s.P50*1000, name+"-p50-us")
	b.ReportMetric(s.P99*1000, name+"-p99-us")
	b.ReportMetric(s.Max*1000, name+"-max-us")
}
