package kit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockpipe/lockpipe"
)

// Load is a number of workers that acquire, extend and release in all Shapes.
type Load struct {
	ended   atomic.Bool
	rounds  atomic.Int64
	workers sync.WaitGroup

	mu   sync.Mutex
	errs []error // guarded by mu
}

// StartLoad starts workers; key makes a key's name of a worker's name.
func StartLoad(t *testing.T, c *lockpipe.Client, workers int, key func(name string) string) *Load {
	w := &Load{}
	for i := range workers {
		w.workers.Go(func() {
			name := fmt.Sprint("worker:", i)
			for n := i; !w.ended.Load(); n++ {
				w.round(context.Background(), c, key(name), n)
			}
		})
	}
	t.Cleanup(func() { w.Stop() })
	return w
}

func (w *Load) round(ctx context.Context, c *lockpipe.Client, key string, n int) {
	kinds := []Shape{Shapes["one"], Shapes["three"], Shapes["each 3"], Shapes["one"], all(300)}
	got, err := kinds[n%len(kinds)](ctx, c, key)
	if err != nil {
		w.failed(err)
	}
	for i, l := range got {
		if l != nil && i%2 == n%2 {
			if err := l.Extend(ctx, LongTTL); err != nil {
				w.failed(err)
			}
		}
	}
	if err := c.ReleaseAll(ctx, got...); err != nil {
		w.failed(err)
	}
	w.rounds.Add(1)
}

func (w *Load) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, err)
}

// Continues returns after so many further rounds.
func (w *Load) Continues(t *testing.T, rounds int64) {
	t.Helper()
	until := w.rounds.Load() + rounds
	Eventually(t, func() bool { return w.rounds.Load() >= until }, "the load stands still")
}

// Stop ends the load and returns all errors.
func (w *Load) Stop() []error {
	w.ended.Store(true)
	w.workers.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.errs
}
