package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/chunks"
)

// A holder can keep many locks by automatic extension.
type holder interface {
	// Hold takes n keys that begin with prefix, each with a lease of its own, and extends each by
	// ttl until ReleaseAll.
	Hold(ctx context.Context, prefix string, n int, ttl time.Duration) (heldLeases, error)
}

// heldLeases is what a holder holds. It is for one goroutine.
type heldLeases interface {
	// Extended is how many extensions were confirmed since the holder was made.
	Extended() uint64
	// ReleaseAll gives everything back and returns how many leases had been lost before.
	ReleaseAll(ctx context.Context) (lost int)
}

const (
	// holdChunk is how many leases are taken or given back in one call, holdCallers how many calls
	// are in progress at the same time.
	holdChunk   = 1000
	holdCallers = 4
	holdTries   = 10
	// longestHold is far more than any scenario holds.
	longestHold = time.Hour
	// longestGive is how long nodes may take to answer what is left of the releases.
	longestGive = 10 * time.Second
)

// lockpipeLeases is the leases that one client of lockpipe holds.
type lockpipeLeases struct {
	client *lockpipe.Client
	leases []*lockpipe.Lease
}

// Hold implements holder. What it got of a hold that failed it gives back.
func (c *lockpipeContender) Hold(ctx context.Context, prefix string, n int,
	ttl time.Duration,
) (heldLeases, error) {
	p := &lockpipeLeases{c.client, make([]*lockpipe.Lease, n)}
	err := chunks.Do(n, holdChunk, holdCallers, func(_, from, to int) error {
		names := make([]string, 0, to-from)
		for i := from; i < to; i++ {
			names = append(names, prefix+strconv.Itoa(i))
		}
		return p.take(ctx, names, p.leases[from:to], ttl)
	})
	if err != nil {
		p.ReleaseAll(context.WithoutCancel(ctx))
		return nil, err
	}
	return p, nil
}

// take fills leases with those of the names. What failed is tried again: nodes may be busy with
// what was taken before.
func (p *lockpipeLeases) take(ctx context.Context, names []string, leases []*lockpipe.Lease,
	ttl time.Duration,
) error {
	places := make([]int, len(names))
	for i := range places {
		places[i] = i
	}
	var failed error
	for range holdTries {
		some := make([]string, len(places))
		for i, place := range places {
			some[i] = names[place]
		}
		var again []int
		for i, r := range p.client.TryAcquireEach(ctx, some, lockpipe.WithTTL(ttl),
			lockpipe.WithAutoExtend(longestHold)) {
			if leases[places[i]] = r.Lease; r.Err != nil {
				again, failed = append(again, places[i]), r.Err
			}
		}
		if places = again; len(places) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%d of %d leases were not granted in %d tries, for one: %w", len(places),
		len(names), holdTries, failed)
}

func (p *lockpipeLeases) Extended() uint64 { return p.client.Stats().Extended }

// ReleaseAll implements heldLeases. A release that was not confirmed in time is the client's to
// repeat; what comes next shall not pay for that.
func (p *lockpipeLeases) ReleaseAll(ctx context.Context) (lost int) {
	var gone atomic.Int64
	_ = chunks.Do(len(p.leases), holdChunk, holdCallers, func(_, from, to int) error {
		held := make([]*lockpipe.Lease, 0, to-from)
		for _, l := range p.leases[from:to] {
			switch {
			case l == nil:
			case l.Err() != nil:
				gone.Add(1)
			default:
				held = append(held, l)
			}
		}
		_ = p.client.ReleaseAll(ctx, held...) // so each chunk is released
		return nil
	})
	p.leases = nil
	end := time.Now().Add(longestGive)
	for p.client.Stats().PendingReleases > 0 && time.Now().Before(end) {
		sleep(ctx, 10*time.Millisecond)
	}
	return int(gone.Load())
}
