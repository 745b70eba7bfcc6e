package lockpipe

import (
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: callbacks that end their goroutine while all others are busy are made up for each time.
// A pool with a limit misses one of some hundred thousand, and then nobody is ever told of anything
// again.
func TestGoroutinesThatCallbacksEndAreReplaced(t *testing.T) {
	const many = 100_000
	c := &callbacks{logger: slog.New(slog.DiscardHandler)}
	block, all := make(chan struct{}), make(chan struct{})
	for range maxCallbacks - 1 {
		c.push(func() { <-block })
	}
	var ran atomic.Int64
	for range many {
		c.push(func() {
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
	c.close()
}
