package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe"
)

const (
	// takeTries is how often a key is asked for, in the scenario Hold, before it is an error that
	// it was not granted.
	takeTries = 10
	// takePause is the time between two of these tries.
	takePause = 100 * time.Millisecond
)

// chunk is what one call of the scenario Hold is about: the keys from first to before end, of one
// Client.
type chunk struct {
	client     *lockpipe.Client
	first, end int
}

// inChunks has holdCallers callers do what is to be done with every chunk, until one fails. It
// returns the first error.
func (h *holding) inChunks(do func(chunk) error) error {
	var callers sync.WaitGroup
	var next atomic.Int64
	var failed atomic.Pointer[error]
	for range holdCallers {
		callers.Go(func() {
			for failed.Load() == nil {
				n := int(next.Add(1) - 1)
				first := n * h.cfg.Batch
				if first >= len(h.leases) {
					return
				}
				end := min(first+h.cfg.Batch, len(h.leases))
				if err := do(chunk{h.clients[n%len(h.clients)], first, end}); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	callers.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// take takes every key, or returns why one was not granted. What ctx cut off is no error.
func (h *holding) take(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, h.cfg.moving())
	defer cancel()
	err := h.inChunks(func(c chunk) error { return h.takeChunk(limited, c) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// takeChunk asks for all keys of a chunk in one call, and again for those that were not granted.
func (h *holding) takeChunk(ctx context.Context, c chunk) error {
	missing := make([]int, 0, c.end-c.first)
	for key := c.first; key < c.end; key++ {
		missing = append(missing, key)
	}
	options := h.cfg.options()
	for try := 1; ; try++ {
		before := time.Now()
		results := c.client.TryAcquireEach(ctx, h.names(missing), options...)
		rest, refused := h.keepGranted(ctx, missing, results, time.Since(before))
		if missing = rest; len(missing) == 0 {
			return nil
		}
		if try == takeTries || !wait(ctx, takePause) {
			return fmt.Errorf("no lease of key %d after %d tries: %w", missing[0], try, refused)
		}
	}
}

// keepGranted keeps the leases that a call was granted and counts the rest. It returns the keys
// that are still missing, and why the first of them is.
func (h *holding) keepGranted(ctx context.Context, keys []int, results []lockpipe.Result,
	took time.Duration,
) (missing []int, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tab.turn(time.Now())
	granted := uint64(0)
	for i, r := range results {
		if r.Err == nil {
			h.leases[keys[i]] = r.Lease
			granted++
			continue
		}
		if missing = append(missing, keys[i]); why == nil {
			why = r.Err
		}
		if !cutOff(ctx, r.Err) {
			h.counts.fail(grant{keys: 1, err: r.Err})
		}
	}
	if granted > 0 {
		h.acquire.record(took)
		h.tab.acquire.record(took)
	}
	h.acquired.Add(granted)
	return missing, why
}

// give releases everything that was taken, and counts how each lease ended: in h.counts, where a
// lease that ended before its release is lost.
func (h *holding) give(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.moving())
	defer cancel()
	_ = h.inChunks(func(c chunk) error { // nothing stops it half-way
		h.giveChunk(ctx, c)
		return nil
	})
}

// giveChunk releases in one call, and asks again where that was not confirmed, as long as the keys
// may still be there.
func (h *holding) giveChunk(ctx context.Context, c chunk) {
	before := time.Now()
	leases := h.leases[c.first:c.end]
	err := c.client.ReleaseAll(ctx, leases...)
	took := time.Since(before)
	for errors.Is(err, lockpipe.ErrNoQuorum) && time.Since(before) < h.cfg.TTL &&
		wait(ctx, releasePause) {
		err = c.client.ReleaseAll(ctx, leases...)
	}
	unknown := unlessOver(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tab.turn(time.Now())
	held := false
	for _, lease := range leases {
		if lease == nil {
			continue
		}
		held = true
		g := grant{keys: 1, held: true, err: unknown}
		if end := lease.Err(); isOver(end) {
			g.err = end
		}
		h.counts.end(g)
	}
	h.counts.lost += h.counts.expired
	h.counts.expired = 0
	if held {
		h.release.record(took)
		h.tab.release.record(took)
	}
}

// names are the names of keys.
func (h *holding) names(keys []int) []string {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = h.prefix + strconv.Itoa(key)
	}
	return names
}

// wait reports whether the time passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
