package bench

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
)

// briefHot is a short run in which many callers queue for one key.
func briefHot() Config {
	cfg := brief(Hot)
	cfg.Nodes, cfg.Keys, cfg.Hold = "inprocess:3", 1, time.Millisecond
	return cfg
}

// queue is a lock service that serves calls in their order.
func queue() (grant, free func([]string) error) {
	key := make(chan struct{}, 1)
	return func([]string) error { key <- struct{}{}; return nil },
		func([]string) error { <-key; return nil }
}

// Goal: if callers queue for one key, the report has waits, counts and shares, with one Client and
// with one for each caller.
func TestHot_ReportsWaitsAndShares(t *testing.T) {
	t.Parallel()
	for _, clients := range []int{1, 8} {
		cfg := briefHot()
		cfg.Clients = clients
		r, err := runUntil(t, 20, cfg)
		require.NoError(t, err)
		requireSound(t, r)
		require.Equal(t, 1, r.Config.Keys)
		require.Equal(t, clients, r.Config.Clients)
		require.NotNil(t, r.HotReport)
		require.Positive(t, r.WaitMs.P50)
		require.LessOrEqual(t, r.WaitMs.P99, r.WaitMs.Max)
		require.LessOrEqual(t, r.WaitMs.Max, r.MaxWaitMs*1.001, "three digits")
		require.LessOrEqual(t, r.MinShare, 1.0)
		require.GreaterOrEqual(t, r.LocksPerCallerCV, 0.0)
		require.GreaterOrEqual(t, r.AttemptsPerLock*float64(r.Acquired)+float64(r.Handovers)+0.5,
			float64(r.Acquired),
			"a lock is granted by the nodes or handed over")
		require.LessOrEqual(t, float64(r.SplitVotes), r.AttemptsPerLock*float64(r.Acquired)+0.5,
			"a split vote was an attempt")
	}
}

// Goal: with several hot keys the report is about all of them together.
func TestHot_SeveralKeys(t *testing.T) {
	t.Parallel()
	cfg := briefHot()
	cfg.Keys, cfg.Clients = 3, 2
	r, err := runUntil(t, 20, cfg)
	require.NoError(t, err)
	requireSound(t, r)
	require.Equal(t, 3, r.Config.Keys)
}

// Goal: only Hot has this part of the report.
func TestHot_OtherScenariosHaveNoHotReport(t *testing.T) {
	t.Parallel()
	cfg := brief(Single)
	cfg.Nodes = "inprocess:1"
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Nil(t, r.HotReport)
}

// Goal: in a fair queue each caller waits for all others, and has the same share.
func TestHot_MeasuresAFairQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig(Hot)
		cfg.Callers, cfg.Duration, cfg.Hold = 4, 1995*time.Millisecond, 10*time.Millisecond
		grant, free := queue()
		m := newVirtualLoad(cfg, func(int) locker {
			return &fakeLocker{ttl: time.Minute, grant: grant, free: free}
		}).run(t.Context())
		require.Zero(t, m.violations)
		require.InEpsilon(t, 30, m.hot.WaitMs.P50, 0.002, "three others hold for 10 ms each")
		require.InEpsilon(t, 30, m.hot.MaxWaitMs, 1e-9)
		require.Less(t, m.hot.LocksPerCallerCV, 0.02)
		require.Greater(t, m.hot.MinShare, 0.97)
		require.Less(t, m.hot.MaxShare, 1.03)
		require.InDelta(t, 1, m.hot.MinClientShare, 1e-9, "there is one Client")
		require.InEpsilon(t, 100, m.hot.HotLocksPerS, 0.03)
		require.InEpsilon(t, 1, m.hot.HotBusy, 1e-9, "the next caller holds at once")
		require.Nil(t, m.hot.Cold)
	})
}

// Goal: the least share and the longest wait show a caller that is never served.
func TestHot_ShowsACallerThatStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig(Hot)
		cfg.Callers, cfg.Keys, cfg.Duration, cfg.Hold = 2, 1, time.Second, 10*time.Millisecond
		m := newVirtualLoad(cfg, func(worker int) locker {
			if worker == 0 {
				return starvingLocker{}
			}
			return &fakeLocker{cost: time.Millisecond, ttl: time.Minute}
		}).run(t.Context())
		require.InDelta(t, 1000, m.hot.MaxWaitMs, 1e-9)
		require.InEpsilon(t, 1, m.hot.WaitMs.Max, 0.002)
		require.Zero(t, m.hot.MinShare)
		require.InEpsilon(t, 1, m.hot.LocksPerCallerCV, 1e-9, "one of two has everything")
		require.Equal(t, released(m.acquired), m.counts, "a call that is cut off is no failure")
	})
}

// starvingLocker waits until the run is over.
type starvingLocker struct{}

func (starvingLocker) lock(ctx context.Context, names []string) []result {
	<-ctx.Done()
	return []result{{keys: len(names), err: fmt.Errorf("%w: %w", lockpipe.ErrHeld, ctx.Err())}}
}

func (starvingLocker) unlock(context.Context) {}

// Goal: in an open loop a wait counts from the call, and not from when the call was due.
func TestHot_AWaitCountsFromTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig(Hot)
		cfg.Callers, cfg.Rate, cfg.Duration = 1, 100, 995*time.Millisecond
		m := newVirtualLoad(cfg, func(int) locker {
			return &fakeLocker{cost: 10 * time.Millisecond, ttl: time.Minute}
		}).run(t.Context())
		require.InEpsilon(t, 10, m.hot.WaitMs.Max, 0.002)
		require.Greater(t, m.acquire.Max, 400.0)
	})
}

// Goal: what the Clients counted before the run does not count.
func TestHot_CountsTheRunOnly(t *testing.T) {
	var r HotReport
	before := lockpipe.Stats{Attempts: 5, SplitVotes: 1, Handovers: 2}
	r.count(before, lockpipe.Stats{Attempts: 35, SplitVotes: 4, Handovers: 92}, 120)
	require.Equal(t, HotReport{Handovers: 90, SplitVotes: 3, AttemptsPerLock: 0.25}, r)
	r.count(lockpipe.Stats{}, lockpipe.Stats{Attempts: 1}, 0)
	require.Zero(t, r.AttemptsPerLock)
}
