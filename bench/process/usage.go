package process

import (
	"runtime"
	"time"
)

// Usage is what this process has used since it began.
type Usage struct {
	CPU    time.Duration // as CPUTime returns it
	Allocs uint64        // allocations of Go
}

// UsageNow returns what this process has used until now. It stops all goroutines for a moment.
func UsageNow() Usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Usage{CPU: CPUTime(), Allocs: m.Mallocs}
}

// Since returns what was used since an earlier moment.
func (u Usage) Since(before Usage) Usage {
	return Usage{CPU: u.CPU - before.CPU, Allocs: u.Allocs - before.Allocs}
}
