// Package batches has calls served together by a combine.Combiner, and checks that no two batches
// have a key at the same time.
package batches

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/check"
	"github.com/lockpipe/lockpipe/combine"
)

// MaxItems is the most items of a batch.
const MaxItems = 512

// Report is about batches. The JSON has its fields next to those of a bench.Report.
type Report struct {
	// ItemsPerS is how many items a second were served. Each call has one.
	ItemsPerS float64 `json:"items_per_s"`
	// Batches is how many batches there were, and ItemsPerBatch the mean of their items.
	Batches       uint64  `json:"batches"`
	ItemsPerBatch float64 `json:"items_per_batch"`
}

// Sale is what a batch returns for one item.
type Sale struct {
	Keys         []int // of the item, by their numbers
	Begun, Ended time.Time
	Until        time.Time // the end of validity of the batch's lease, when it began
	First        bool      // the item was the first of its batch
}

// Config says what a batch does.
type Config struct {
	Ownership func() *check.Ownership // of all keys
	Hold      time.Duration           // how long a batch takes
	Work      time.Duration           // and for each of its items in addition
}

// Calls are served together. All methods are safe for concurrent use.
type Calls struct {
	// Do has an item served, which is the numbers of the keys with these names. Tests replace it.
	Do func(ctx context.Context, names []string, keys []int) (Sale, error)

	cfg            Config // set once
	batches, items atomic.Uint64
}

// New returns the calls of a Client, whose leases have these options.
func New(client *lockpipe.Client, options []lockpipe.Option, cfg Config) *Calls {
	c := &Calls{cfg: cfg}
	c.Do = combine.New(client, c.serve, combine.LockOptions(options...),
		combine.MaxItems(MaxItems)).Do
	return c
}

// serve works on a batch.
func (c *Calls) serve(ctx context.Context, lease *lockpipe.Lease, items [][]int) ([]Sale, error) {
	batch := c.batches.Add(1)
	c.items.Add(uint64(len(items)))
	s, owned := Sale{Begun: time.Now(), Until: lease.Until()}, c.cfg.Ownership()
	keys := slices.Compact(slices.Sorted(slices.Values(slices.Concat(items...))))
	claims := make([]uint64, len(keys))
	for i, key := range keys {
		claims[i] = owned.Claim(key, uint32(batch%check.MaxHolder)+1, s.Until)
	}
	timer := time.NewTimer(c.cfg.Hold + time.Duration(len(items))*c.cfg.Work)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	for i, key := range keys {
		owned.Drop(key, claims[i])
	}
	s.Ended = time.Now()
	sales := make([]Sale, len(items))
	for i, item := range items {
		sales[i] = s
		sales[i].Keys, sales[i].First = item, i == 0
	}
	return sales, nil
}

// Sum reports what all calls were, of which so many were served in this time.
func Sum(all []*Calls, served uint64, elapsed time.Duration) *Report {
	r, items := &Report{ItemsPerS: float64(served) / elapsed.Seconds()}, uint64(0)
	for _, c := range all {
		r.Batches += c.batches.Load()
		items += c.items.Load()
	}
	r.ItemsPerBatch = float64(items) / float64(max(r.Batches, 1))
	return r
}
