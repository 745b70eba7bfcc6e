package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/process"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// briefHold is a short run of few leases.
func briefHold() Config {
	cfg := brief(Hold)
	cfg.Leases, cfg.TTL = 50, 10*time.Second
	return cfg
}

// whenAllHeld calls do once, when all leases of a run are held. The run must last for
// progressInterval at least.
func whenAllHeld(cfg *Config, do func()) {
	var once sync.Once
	cfg.Progress = func(_ time.Duration, locks uint64) {
		if locks == uint64(cfg.Leases) {
			once.Do(do)
		}
	}
}

// Goal: all leases are held beyond their TTL, live on the nodes all the time, and leave nothing
// behind.
func TestHold_KeepsEveryLeaseAlive(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	cfg := briefHold()
	cfg.Nodes, cfg.Clients, cfg.TTL, cfg.Duration = "inprocess:3", 3, 6*time.Second,
		12*time.Second
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	requireSound(t, r)
	require.EqualValues(t, 50, r.Acquired)
	require.Equal(t, r.Acquired, r.Released)
	require.Equal(t, 50, r.Leases)
	require.Zero(t, r.Lost)
	require.Zero(t, r.Missing, r.FirstMissing)
	require.NotZero(t, r.Samples)
	require.GreaterOrEqual(t, r.ExtensionsPerS*r.KeepS, 99.0, "each lease at least twice")
	require.GreaterOrEqual(t, r.KeepS, 12.0)
	require.Positive(t, r.TakeS)
	require.Positive(t, r.GiveS)
	require.GreaterOrEqual(t, r.DurationS, r.TakeS+r.KeepS+r.GiveS)
	if process.CPUTime() > 0 {
		require.Positive(t, *r.CPUCoresWithNodes)
	}
	if process.ResidentBytes() > 0 {
		require.Positive(t, *r.RSSBytesPerLeaseWithNodes)
	}
	require.Nil(t, r.ClientCPUCores)
	require.Nil(t, r.ClientRSSBytesPerLease)
}

// Goal: the report has what the scenario sets for itself, and every lease is extended for longer
// than the run may last.
func TestHold_SetsItsConfig(t *testing.T) {
	cfg := DefaultConfig(Hold)
	cfg.Leases, cfg.Clients, cfg.Rate, cfg.Hold, cfg.Keys = 2500, 2, 7, time.Hour, 3
	s := cfg.withScenario()
	require.Equal(t, 1000, s.Batch)
	require.Equal(t, 2500, s.Keys)
	require.Equal(t, holdCallers, s.Callers)
	require.Equal(t, cfg.Duration, s.Hold)
	require.Zero(t, s.Rate)
	require.Equal(t, 2*cfg.transferTimeout()+cfg.Duration, s.AutoExtend)
	cfg.Leases = 3
	require.Equal(t, 2, cfg.withScenario().Batch, "each Client has a part")
	cfg.Scenario = Each
	require.Equal(t, cfg, cfg.withScenario())
}

// Goal: every key belongs to one chunk of one Client, and an error ends the work.
func TestHold_ChunksAreTheWhole(t *testing.T) {
	cfg := DefaultConfig(Hold)
	cfg.Leases = 4*holdChunk + 7
	h := newHoldRun(cfg.withScenario(), "", []*lockpipe.Client{nil, nil}, nil)
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

// Goal: a key that is held for a moment is asked for again, until all are held.
func TestHold_AsksAgain(t *testing.T) {
	t.Parallel()
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

// Goal: a key that is never granted is an error. Nothing is kept, and other leases are released.
func TestHold_NeedsEveryLease(t *testing.T) {
	t.Parallel()
	nodes, cfg := external(t, briefHold())
	cfg.Duration = time.Hour
	require.NoError(t, onAll(nodes, "SET", cfg.Prefix+"7", "by another"))
	r, err := Run(t.Context(), cfg)
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	require.ErrorContains(t, err, "key 7 ")
	require.Equal(t, 49, r.Leases)
	require.EqualValues(t, 49, r.Released)
	require.EqualValues(t, acquireTries, r.Refused)
	require.Zero(t, r.KeepS)
	require.Equal(t, 3, r.LeftoverKeys, "those of the other holder")
}

// Goal: an interrupt ends the run, and everything is released.
func TestHold_EndsEarly(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	_, cfg := external(t, briefHold())
	cfg.Duration = time.Hour
	whenAllHeld(&cfg, cancel)
	r, err := Run(ctx, cfg)
	require.NoError(t, err)
	requireSound(t, r)
	require.EqualValues(t, 50, r.Released)
	require.Less(t, r.KeepS, 60.0)
}

// Goal: an interrupt while the run still takes leases is no error either.
func TestHold_EndsWhileItTakes(t *testing.T) {
	t.Parallel()
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

// Goal: a lease is missing if a majority of the nodes loses its key and its Client does not know
// that. It is not if a minority does.
func TestHold_FindsMissingLeases(t *testing.T) {
	t.Parallel()
	for damaged, missing := range map[int]bool{1: false, 2: true} {
		t.Run(fmt.Sprintf("on %d of 3 nodes", damaged), func(t *testing.T) {
			t.Parallel()
			nodes, cfg := external(t, briefHold())
			cfg.Leases, cfg.TTL = 2, time.Minute // not extended meanwhile
			cfg.Duration = time.Hour
			key := cfg.Prefix + "1"
			ctx, cancel := context.WithCancel(t.Context())
			whenAllHeld(&cfg, func() {
				for i := range nodes.Len() { // a quorum has the key; now all nodes
					has := func() bool {
						value, err := nodes.Do(i, "GET", key)
						return err == nil && value != nil
					}
					assert.Eventually(t, has, time.Minute, time.Millisecond)
				}
				for i := range damaged {
					if _, err := nodes.Do(i, "DEL", key); err != nil {
						t.Error(err)
					}
				}
				before := reads(t, nodes)
				sampled := func() bool { return reads(t, nodes) > before+120 } // by 40 samples
				assert.Eventually(t, sampled, time.Minute, 10*time.Millisecond)
				cancel()
			})
			r, err := Run(ctx, cfg)
			require.NoError(t, err)
			require.NotZero(t, r.Samples)
			require.Equal(t, missing, r.Missing > 0, r.FirstMissing)
			require.Equal(t, !missing, r.Safe())
			require.Equal(t, missing, strings.HasPrefix(r.FirstMissing, key+"; "), r.FirstMissing)
		})
	}
}

// reads returns how many GET all nodes have executed.
func reads(t *testing.T, nodes *lockpipetest.Nodes) (calls int) {
	for i := range nodes.Len() {
		stats, err := nodes.Do(i, "INFO", "commandstats")
		if err != nil {
			t.Error(err)
		}
		if _, of, found := strings.Cut(fmt.Sprint(stats), "cmdstat_get:calls="); found {
			digits, _, _ := strings.Cut(of, ",")
			n, err := strconv.Atoi(digits)
			assert.NoError(t, err)
			calls += n
		}
	}
	return calls
}

// Goal: a lease that its Client finds gone is lost.
func TestHold_CountsLostLeases(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	nodes, cfg := external(t, briefHold())
	cfg.TTL = 4 * time.Second
	whenAllHeld(&cfg, func() { assert.NoError(t, onAll(nodes, "DEL", cfg.Prefix+"1")) })
	r, err := runUntilCounted(t, "lockpipe_leases_ended_total", `"lost"`, cfg)
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Lost)
	require.Zero(t, r.Expired)
	require.Equal(t, r.Acquired, r.Released+r.Lost)
	require.False(t, r.Safe())
}

// Goal: leases that run out because no quorum answers are lost too. Neither the sampler nor the run
// waits for such nodes.
func TestHold_CountsLeasesThatNoQuorumExtends(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	nodes, cfg := external(t, briefHold())
	cfg.TTL, cfg.Duration, cfg.nodeTimeout = time.Second, 2*time.Second, 0
	whenAllHeld(&cfg, func() { freezeMajority(t, nodes, 3*cfg.TTL/2) })
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.EqualValues(t, 50, r.Lost)
	require.False(t, r.Safe())
	require.Zero(t, r.LeftoverKeys)
}

// Goal: a release that was not confirmed in time is tried again, and counts as released when it is
// confirmed.
func TestHold_RetriesReleases(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	nodes, cfg := external(t, briefHold())
	cfg.Duration, cfg.nodeTimeout = time.Hour, 0
	whenAllHeld(&cfg, func() {
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
