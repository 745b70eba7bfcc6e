package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/chunks"
	"github.com/lockpipe/lockpipe/bench/errorkinds"
)

const (
	// acquireTries is how often the scenario Hold asks for a key before it is an error that the key
	// was not granted.
	acquireTries = 10
	// acquirePause is the time between two of these tries.
	acquirePause = 100 * time.Millisecond
)

// chunk is what one call of the scenario Hold is about: the keys from first to before end, of one
// Client.
type chunk struct {
	client     *lockpipe.Client
	first, end int
}

// inChunks has holdCallers callers call do for all chunks, until one fails. It returns the first
// error.
func (h *holdRun) inChunks(do func(chunk) error) error {
	return chunks.Do(len(h.leases), h.cfg.Batch, holdCallers, func(i, first, end int) error {
		return do(chunk{h.clients[i%len(h.clients)], first, end})
	})
}

// acquireAll takes every key, or returns why one was not granted. If ctx ends, that is no error.
func (h *holdRun) acquireAll(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, h.cfg.transferTimeout())
	defer cancel()
	err := h.inChunks(func(c chunk) error { return h.acquireChunk(limited, c) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// acquireChunk asks for all keys of a chunk in one call, and again for those that were not granted.
func (h *holdRun) acquireChunk(ctx context.Context, c chunk) error {
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
		if try == acquireTries || !sleep(ctx, acquirePause) {
			return fmt.Errorf("no lease of key %d after %d tries: %w", missing[0], try, refused)
		}
	}
}

// keepGranted keeps the leases that a call was granted, and counts the others. It returns the keys
// that are still missing, and why the first of them is.
func (h *holdRun) keepGranted(ctx context.Context, keys []int, results []lockpipe.Result,
	took time.Duration,
) (missing []int, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recorder.Roll(time.Now())
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
			h.counts.fail(result{keys: 1, err: r.Err})
		}
	}
	if granted > 0 {
		h.acquire.Record(took)
		h.recorder.Acquire(took)
	}
	h.acquired.Add(granted)
	return missing, why
}

// releaseAll releases everything that was taken, and counts in h.counts how each lease ended. A
// lease that ended before its release is lost.
func (h *holdRun) releaseAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.transferTimeout())
	defer cancel()
	_ = h.inChunks(func(c chunk) error { // without errors, so each chunk is released
		h.releaseChunk(ctx, c)
		return nil
	})
}

// releaseChunk releases in one call. It tries again if that was not confirmed, while the keys may
// still be there.
func (h *holdRun) releaseChunk(ctx context.Context, c chunk) {
	before := time.Now()
	leases := h.leases[c.first:c.end]
	err := c.client.ReleaseAll(ctx, leases...)
	took := time.Since(before)
	for errors.Is(err, lockpipe.ErrNoQuorum) && time.Since(before) < h.cfg.TTL &&
		sleep(ctx, releasePause) {
		err = c.client.ReleaseAll(ctx, leases...)
	}
	other := errorkinds.OtherThanEnded(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recorder.Roll(time.Now())
	held := false
	for _, lease := range leases {
		if lease == nil {
			continue
		}
		held = true
		h.counts.end(result{keys: 1, held: true, err: endOf(lease, other)})
	}
	h.counts.Lost += h.counts.Expired
	h.counts.Expired = 0
	if held {
		h.release.Record(took)
		h.recorder.Release(took)
	}
}

// names returns the names of keys.
func (h *holdRun) names(keys []int) []string {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = h.prefix + strconv.Itoa(key)
	}
	return names
}

// sleep reports false if ctx ended before the time had passed.
func sleep(ctx context.Context, d time.Duration) bool {
	over, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-over.Done()
	return ctx.Err() == nil
}
