package lockpipe_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockpipe/lockpipe"
)

// load is a number of workers that acquire, extend and release in all shapes.
type load struct {
	ended   atomic.Bool
	rounds  atomic.Int64
	workers sync.WaitGroup

	mu   sync.Mutex
	errs []error // guarded by mu
}

// startLoad starts workers; key makes a key's name of a worker's name.
func startLoad(t *testing.T, c *lockpipe.Client, workers int, key func(name string) string) *load {
	w := &load{}
	for i := range workers {
		w.workers.Go(func() {
			name := fmt.Sprint("worker:", i)
			for n := i; !w.ended.Load(); n++ {
				w.round(context.Background(), c, key(name), n)
			}
		})
	}
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *load) round(ctx context.Context, c *lockpipe.Client, key string, n int) {
	kinds := []shape{shapes["one"], shapes["three"], shapes["each 3"], shapes["one"], all(300)}
	got, err := kinds[n%len(kinds)](ctx, c, key)
	if err != nil {
		w.failed(err)
	}
	for i, l := range got {
		if l != nil && i%2 == n%2 {
			if err := l.Extend(ctx, longTTL); err != nil {
				w.failed(err)
			}
		}
	}
	if err := c.ReleaseAll(ctx, got...); err != nil {
		w.failed(err)
	}
	w.rounds.Add(1)
}

func (w *load) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, err)
}

// continues returns after so many further rounds.
func (w *load) continues(t *testing.T, rounds int64) {
	t.Helper()
	until := w.rounds.Load() + rounds
	eventually(t, func() bool { return w.rounds.Load() >= until }, "the load stands still")
}

// stop ends the load and returns all errors.
func (w *load) stop() []error {
	w.ended.Store(true)
	w.workers.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.errs
}
