package callbacks

import (
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: a function that ends its goroutine while all others are busy is replaced each time. A
// pool with a limit misses one of some hundred thousand, and then no function runs any more.
func TestPool_ReplacesGoroutinesThatFunctionsEnd(t *testing.T) {
	const many = 100_000
	p := New(slog.New(slog.DiscardHandler))
	block, all := make(chan struct{}), make(chan struct{})
	for range maxRunning - 1 {
		p.Run(func() { <-block })
	}
	var ran atomic.Int64
	for range many {
		p.Run(func() {
			if ran.Add(1) == many {
				close(all)
			}
			runtime.Goexit()
		})
	}
	select {
	case <-all:
	case <-time.After(time.Minute):
		require.EqualValues(t, many, ran.Load())
	}
	close(block)
	p.Close()
}

// BenchmarkPool is what a function costs that has nothing to do, with others in the queue and
// without.
func BenchmarkPool(b *testing.B) {
	for name, inFlight := range map[string]int{"alone": 1, "queued": 10_000} {
		b.Run(name, func(b *testing.B) {
			p := New(slog.New(slog.DiscardHandler))
			defer p.Close()
			slots := make(chan struct{}, inFlight)
			f := func() { <-slots }
			b.ReportAllocs()
			for b.Loop() {
				slots <- struct{}{}
				p.Run(f)
			}
		})
	}
}
