package process

import (
	"context"
	"runtime"
	"time"
)

// sizeInterval is the time between two measurements of Largest.
const sizeInterval = 100 * time.Millisecond

// Largest returns the largest value that measure returns until ctx ends. It measures several times
// a second, and at both ends.
func Largest(ctx context.Context, measure func() int64) int64 {
	tick := time.NewTicker(sizeInterval)
	defer tick.Stop()
	most := measure()
	for {
		select {
		case <-tick.C:
			most = max(most, measure())
		case <-ctx.Done():
			return max(most, measure())
		}
	}
}

// WatchGoroutines counts goroutines until stop is called. stop returns the largest count.
func WatchGoroutines() (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	most := make(chan int64, 1)
	go func() { most <- Largest(ctx, func() int64 { return int64(runtime.NumGoroutine()) }) }()
	return func() int {
		cancel()
		return int(<-most)
	}
}

// GoroutinesLeft returns how many goroutines there are as soon as these are no more than before, or
// after the timeout.
func GoroutinesLeft(before int, timeout time.Duration) int {
	for start := time.Now(); runtime.NumGoroutine() > before && time.Since(start) < timeout; {
		time.Sleep(time.Millisecond)
	}
	return runtime.NumGoroutine()
}
