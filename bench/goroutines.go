package bench

import (
	"context"
	"runtime"
	"time"
)

// goneWithin is how long goroutines may take to end after the Clients were closed.
const goneWithin = 5 * time.Second

// mostGoroutines looks how many there are until the function that it returns is called, which tells
// the most.
func mostGoroutines(ctx context.Context) (stop func() int) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	most := make(chan int64, 1)
	go func() { most <- largest(ctx, func() int64 { return int64(runtime.NumGoroutine()) }) }()
	return func() int {
		cancel()
		return int(<-most)
	}
}

// goroutinesLeft is how many there are once no more than before, or after some time.
func goroutinesLeft(before int) int {
	for start := time.Now(); runtime.NumGoroutine() > before && time.Since(start) < goneWithin; {
		time.Sleep(time.Millisecond)
	}
	return runtime.NumGoroutine()
}
