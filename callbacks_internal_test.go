package lockpipe

import (
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: callbacks that end their goroutine, while all others are busy, are made up for each time.
func TestGoroutinesThatCallbacksEndAreReplaced(t *testing.T) {
	c := &callbacks{logger: slog.New(slog.DiscardHandler)}
	block := make(chan struct{})
	for range maxCallbacks - 1 {
		c.push(func() { <-block })
	}
	const many = 300_000
	var ran atomic.Int64
	for range many {
		c.push(func() {
			ran.Add(1)
			runtime.Goexit()
		})
	}
	last := int64(-1)
	for ran.Load() < many {
		if n := ran.Load(); n == last {
			break
		} else {
			last = n
		}
		time.Sleep(2 * time.Second)
	}
	require.EqualValues(t, many, ran.Load())
	close(block)
	c.close()
}
