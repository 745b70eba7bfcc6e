// Package fleet has the Clients of a run: it makes them, moves them from one layout of nodes to
// another while callers use them, and closes them.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe"
)

const (
	// readyTimeout is how long a run waits for each Client until it was granted its first lock:
	// long enough for a machine that is busy with other things.
	readyTimeout = 15 * time.Second
	// releasePause is the time between two tries to release while too few nodes answer.
	releasePause = 10 * time.Millisecond
)

// lockOnce takes and releases one lock. It tries to release until ctx ends, as Acquire tries to
// acquire: nodes that were late once may still be used. A lease that ran out meanwhile needs no
// release.
func lockOnce(ctx context.Context, client *lockpipe.Client, key string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	lease, err := client.Acquire(ctx, key)
	if err != nil {
		return fmt.Errorf("the nodes grant no lock: %w", err)
	}
	for {
		err := lease.Release(ctx)
		if err == nil || errors.Is(err, lockpipe.ErrExpired) {
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, lockpipe.ErrNoQuorum) {
			return fmt.Errorf("the nodes release no lock: %w", err)
		}
		time.Sleep(releasePause)
	}
}

// Close closes all at the same time, so that each has the whole timeout for its releases.
func Close(ctx context.Context, clients []*lockpipe.Client, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	errs := make([]error, len(clients))
	var closing sync.WaitGroup
	for i, client := range clients {
		closing.Go(func() {
			if err := client.Close(ctx); err != nil {
				errs[i] = fmt.Errorf("close client %d: %w", i, err)
			}
		})
	}
	closing.Wait()
	return errors.Join(errs...)
}

// Stats returns the sums of those counters of the Clients that reports use.
func Stats(clients []*lockpipe.Client) (sum lockpipe.Stats) {
	for _, client := range clients {
		s := client.Stats()
		sum.Flushes += s.Flushes
		sum.Operations += s.Operations
		sum.Extended += s.Extended
		sum.Attempts += s.Attempts
		sum.SplitVotes += s.SplitVotes
		sum.Handovers += s.Handovers
	}
	return sum
}
