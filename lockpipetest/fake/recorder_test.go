package fake_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/lockpipetest/fake"
)

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	failures []string
	cleanups []func()
}

// run runs test as a test of its own, to the end of its clean-up.
func (r *recorder) run(t *testing.T, test func(t testing.TB)) {
	r.TB = t
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.cleanUp()
		test(r)
	}()
	<-done
}

func (r *recorder) cleanUp() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// BenchmarkNewClient measures how long a test waits for its client, and for the end of it.
func BenchmarkNewClient(b *testing.B) {
	var ready time.Duration
	for b.Loop() {
		begin := time.Now()
		r := recorder{TB: b}
		c := fake.NewClient(&r)
		if _, err := c.TryAcquire(b.Context(), "k"); err != nil {
			b.Fatal(err)
		}
		ready += time.Since(begin)
		r.cleanUp()
	}
	b.ReportMetric(float64(ready.Microseconds())/float64(b.N), "us-ready/op")
}
