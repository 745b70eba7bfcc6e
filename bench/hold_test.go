package bench

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// briefHold is a short run of few leases.
func briefHold() Config {
	cfg := brief(Hold)
	cfg.Leases, cfg.TTL = 50, 10*time.Second
	return cfg
}

// atOnce has do called once, when all leases of a run are held. The run must last for progressStep
// at least.
func atOnce(cfg *Config, do func()) {
	var once sync.Once
	cfg.Progress = func(_ time.Duration, locks uint64) {
		if locks == uint64(cfg.Leases) {
			once.Do(do)
		}
	}
}

// All leases are held far beyond their TTL, live on the nodes all the time, and leave nothing
// behind.
func TestHoldKeepsEveryLeaseAlive(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	cfg := briefHold()
	cfg.Nodes, cfg.Clients, cfg.TTL, cfg.Duration = "inprocess:3", 3, 3*time.Second, 5*time.Second
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	requireSound(t, r)
	require.EqualValues(t, 50, r.Acquired)
	require.Equal(t, r.Acquired, r.Released)
	require.Equal(t, 50, r.Leases)
	require.Zero(t, r.Lost)
	require.Zero(t, r.Dead, r.FirstDead)
	require.NotZero(t, r.Samples)
	require.GreaterOrEqual(t, r.ExtensionsPerS*r.KeepS, 99.0, "each lease twice at least")
	require.GreaterOrEqual(t, r.KeepS, 5.0)
	require.Positive(t, r.TakeS)
	require.Positive(t, r.GiveS)
	require.GreaterOrEqual(t, r.DurationS, r.TakeS+r.KeepS+r.GiveS)
	if cpuTime() > 0 {
		require.Positive(t, r.ClientCPUCores)
	}
	if residentBytes() > 0 {
		require.Positive(t, r.ClientRSSBytesPerLease)
	}
}

// What the scenario sets for itself stands in the report, and every lease is extended for longer
// than the run may last.
func TestHoldSettlesItsConfig(t *testing.T) {
	cfg := Default(Hold)
	cfg.Leases, cfg.Clients, cfg.Rate, cfg.Hold, cfg.Keys = 2500, 2, 7, time.Hour, 3
	s := cfg.settled()
	require.Equal(t, 1000, s.Batch)
	require.Equal(t, 2500, s.Keys)
	require.Equal(t, holdCallers, s.Callers)
	require.Equal(t, cfg.Duration, s.Hold)
	require.Zero(t, s.Rate)
	require.Equal(t, 2*cfg.moving()+cfg.Duration, s.AutoExtend)
	cfg.Leases = 3
	require.Equal(t, 2, cfg.settled().Batch, "each Client has a part")
	cfg.Scenario = Each
	require.Equal(t, cfg, cfg.settled())
}

// Every key belongs to one chunk, and an error ends the work.
func TestChunksAreTheWhole(t *testing.T) {
	cfg := Default(Hold)
	cfg.Leases = 4*holdChunk + 7
	h := newHolding(cfg.settled(), "", []*lockpipe.Client{nil, nil}, nil)
	var mu sync.Mutex
	seen := make([]int, cfg.Leases)
	require.NoError(t, h.inChunks(func(c chunk) error {
		mu.Lock()
		defer mu.Unlock()
		assert.LessOrEqual(t, c.end-c.first, holdChunk)
		for key := c.first; key < c.end; key++ {
			seen[key]++
		}
		return nil
	}))
	for key, n := range seen {
		require.Equal(t, 1, n, key)
	}
	require.Equal(t, context.Canceled, h.inChunks(func(c chunk) error {
		if c.first == 0 {
			return context.Canceled
		}
		return nil
	}))
}

// A key that is free again soon is asked for again, and all are held then.
func TestHoldAsksAgain(t *testing.T) {
	nodes, cfg := external(t, briefHold())
	require.NoError(t, onAll(nodes, "SET", cfg.Prefix+"7", "by another"))
	var free sync.Once
	cfg.Progress = func(_ time.Duration, locks uint64) {
		if locks == 49 {
			free.Do(func() { assert.NoError(t, onAll(nodes, "DEL", cfg.Prefix+"7")) })
		}
	}
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.NotZero(t, r.Refused)
	require.Equal(t, 50, r.Leases)
	require.EqualValues(t, 50, r.Released)
	require.True(t, r.Safe())
}

// A key that is never granted is an error; nothing is kept, and what was taken is released.
func TestHoldNeedsEveryLease(t *testing.T) {
	nodes, cfg := external(t, briefHold())
	cfg.Duration = time.Hour
	require.NoError(t, onAll(nodes, "SET", cfg.Prefix+"7", "by another"))
	r, err := Run(t.Context(), cfg)
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	require.ErrorContains(t, err, "key 7 ")
	require.Equal(t, 49, r.Leases)
	require.EqualValues(t, 49, r.Released)
	require.EqualValues(t, takeTries, r.Refused)
	require.Zero(t, r.KeepS)
	require.Equal(t, 3, r.LeftoverKeys, "those of the other")
}

// An interrupt ends the holding, and everything is released.
func TestHoldEndsEarly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, cfg := external(t, briefHold())
	cfg.Duration = time.Hour
	atOnce(&cfg, cancel)
	r, err := Run(ctx, cfg)
	require.NoError(t, err)
	requireSound(t, r)
	require.EqualValues(t, 50, r.Released)
	require.Less(t, r.KeepS, 60.0)
}

// An interrupt while leases are still being taken is no error either.
func TestHoldEndsWhileItTakes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	nodes, cfg := external(t, briefHold())
	require.NoError(t, onAll(nodes, "SET", cfg.Prefix+"7", "by another"))
	cfg.Progress = func(_ time.Duration, locks uint64) {
		if locks == 49 {
			cancel()
		}
	}
	r, err := Run(ctx, cfg)
	require.NoError(t, err)
	require.EqualValues(t, 49, r.Released)
	require.Zero(t, r.KeepS)
}

// A key that goes away on a majority while its Client knows nothing of that is dead; on a minority
// it isn't.
func TestHoldFindsDeadLeases(t *testing.T) {
	for damaged, dead := range map[int]bool{1: false, 2: true} {
		nodes, cfg := external(t, briefHold())
		cfg.Leases, cfg.TTL, cfg.Duration = 2, time.Minute, time.Second // not extended within that
		atOnce(&cfg, func() {
			for i := range damaged {
				_, err := nodes.Do(i, "DEL", cfg.Prefix+"1")
				assert.NoError(t, err)
			}
		})
		r, err := Run(t.Context(), cfg)
		require.NoError(t, err)
		require.NotZero(t, r.Samples)
		require.Equal(t, dead, r.Dead > 0, r.FirstDead)
		require.Equal(t, !dead, r.Safe())
		require.Equal(t, dead, strings.HasPrefix(r.FirstDead, cfg.Prefix+"1; "), r.FirstDead)
	}
}

// A lease that its Client finds gone is lost.
func TestHoldCountsLostLeases(t *testing.T) {
	nodes, cfg := external(t, briefHold())
	cfg.TTL, cfg.Duration = 4*time.Second, 4*time.Second
	atOnce(&cfg, func() { assert.NoError(t, onAll(nodes, "DEL", cfg.Prefix+"1")) })
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Lost)
	require.Zero(t, r.Expired)
	require.Equal(t, r.Acquired, r.Released+r.Lost)
	require.False(t, r.Safe())
}

// Leases that run out because no quorum answers are lost as well, and neither the sampler nor the
// run waits for such nodes.
func TestHoldCountsLeasesThatNoQuorumExtends(t *testing.T) {
	nodes, cfg := external(t, briefHold())
	cfg.TTL, cfg.Duration = time.Second, 3*time.Second
	atOnce(&cfg, func() { freezeMajority(t, nodes, 2*cfg.TTL) })
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.EqualValues(t, 50, r.Lost)
	require.False(t, r.Safe())
	require.Zero(t, r.LeftoverKeys)
}

// A release that is not confirmed in time is asked for again, and counts as released once it is
// confirmed.
func TestHoldAsksForReleasesAgain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	nodes, cfg := external(t, briefHold())
	cfg.Duration = time.Hour
	atOnce(&cfg, func() {
		freezeMajority(t, nodes, 500*time.Millisecond)
		cancel()
	})
	r, err := Run(ctx, cfg)
	require.NoError(t, err)
	requireSound(t, r)
	require.EqualValues(t, 50, r.Released)
}

// freezeMajority freezes two of three nodes, and thaws them after d.
func freezeMajority(t *testing.T, nodes *lockpipetest.Nodes, d time.Duration) {
	t.Helper()
	for i := range 2 {
		if err := nodes.Freeze(i); err != nil {
			t.Error(err) // not on the goroutine of the test
		}
		time.AfterFunc(d, func() { assert.NoError(t, nodes.Thaw(i)) })
	}
}

// The largest value counts, the first and the last included.
func TestLargest(t *testing.T) {
	for _, values := range [][]int64{{9, 1, 2}, {1, 9, 2}, {1, 2, 9}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), memoryStep+memoryStep/2)
			defer cancel()
			require.EqualValues(t, 9, largest(ctx, func() int64 {
				v := values[0]
				values = values[1:]
				return v
			}))
			require.Empty(t, values)
		})
	}
}
