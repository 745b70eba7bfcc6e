package process

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Goal: work that the process does is in its CPU time.
func TestCPU_WorkCounts(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("this system does not report it")
	}
	before := CPUTime()
	require.Eventually(t, func() bool {
		for start := time.Now(); time.Since(start) < 5*time.Millisecond; {
		}
		return CPUTime() > before
	}, time.Minute, time.Millisecond)
}

// Goal: no sleep ends before its time.
func TestPreciseSleep_LastsLongEnough(t *testing.T) {
	for _, d := range []time.Duration{-1, 0, time.Microsecond, 2 * time.Millisecond} {
		start := time.Now()
		PreciseSleep(d)
		require.GreaterOrEqual(t, time.Since(start), d)
	}
}

// Goal: the largest value counts, the first and the last included.
func TestLargest(t *testing.T) {
	for _, values := range [][]int64{{9, 1, 2}, {1, 9, 2}, {1, 2, 9}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), sizeInterval+sizeInterval/2)
			defer cancel()
			require.EqualValues(t, 9, Largest(ctx, func() int64 {
				v := values[0]
				values = values[1:]
				return v
			}))
			require.Empty(t, values)
		})
	}
}

// Goal: goroutines that end soon are not left, and goroutines that stay are. The most are counted.
func TestGoroutines_AreCounted(t *testing.T) {
	before, done := runtime.NumGoroutine(), make(chan struct{})
	stop := WatchGoroutines()
	for range 100 {
		go func() { <-done }()
	}
	require.GreaterOrEqual(t, stop(), 100)
	require.GreaterOrEqual(t, GoroutinesLeft(before, time.Millisecond), 100)
	close(done)
	require.LessOrEqual(t, GoroutinesLeft(before, time.Minute), before)
}

// Goal: usage is a difference of two moments.
func TestUsage_Since(t *testing.T) {
	before := Usage{CPU: time.Second, Allocs: 10}
	require.Equal(t, Usage{CPU: time.Second, Allocs: 5}, Usage{
		CPU:    2 * time.Second,
		Allocs: 15,
	}.Since(before))
	require.NotZero(t, UsageNow().Allocs)
}
