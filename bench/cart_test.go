package bench

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// briefCart is a short run of a few callers in virtual time.
func briefCart() Config {
	cfg := DefaultConfig(Cart)
	cfg.Callers, cfg.Keys, cfg.Seed = 4, 100, 1
	cfg.Duration, cfg.Hold = 1995*time.Millisecond, 10*time.Millisecond
	return cfg
}

// Goal: with one Client and with several, with one hot key and with several, a run is sound, and
// the report is about the hot keys.
func TestCart_ReportsTheHotKeys(t *testing.T) {
	t.Parallel()
	for _, clients := range []int{1, 3} {
		cfg := brief(Cart)
		cfg.Nodes, cfg.Hold = "inprocess:3", time.Millisecond
		cfg.Clients, cfg.Hot = clients, clients
		r, err := runUntil(t, 50, cfg)
		require.NoError(t, err)
		requireSound(t, r)
		require.Equal(t, 3, r.Config.Batch)
		require.Equal(t, 1000, r.Config.Keys)
		require.Equal(t, clients, r.Config.Hot)
		require.Equal(t, 2, r.Config.Others)
		require.NotNil(t, r.HotReport)
		require.Nil(t, r.Cold)
		require.Positive(t, r.HotBusy)
		require.LessOrEqual(t, r.HotBusy, 1.0, "a hot key has one holder at a time")
		require.InEpsilon(t, r.LocksPerS, r.HotLocksPerS*float64(3*clients), 1e-9)
		require.LessOrEqual(t, r.MinShare, 1.0)
		require.GreaterOrEqual(t, r.MaxShare, 1.0)
		require.LessOrEqual(t, r.MinClientShare, 1.0)
	}
}

// Goal: a run with cold callers is sound, and the report has them apart.
func TestCart_ReportsColdCallers(t *testing.T) {
	t.Parallel()
	cfg := brief(Cart)
	cfg.Nodes, cfg.Hold, cfg.Clients, cfg.Cold = "inprocess:3", time.Millisecond, 2, 3
	r, err := runUntil(t, 50, cfg)
	require.NoError(t, err)
	requireSound(t, r)
	require.Equal(t, 3, r.Config.Cold)
	require.NotNil(t, r.Cold)
	require.InEpsilon(t, r.LocksPerS, r.Cold.LocksPerS+r.HotLocksPerS*3, 1e-9,
		"every lock is of one or the other callers")
	require.LessOrEqual(t, r.HotBusy, 1.0)
	require.LessOrEqual(t, r.Cold.WaitMs.Max, r.Cold.MaxWaitMs*1.001, "three digits")
}

// Goal: a caller asks for one hot key and distinct others, a cold caller for one key that is not
// hot, and the seed repeats all of them.
func TestCart_ChoosesTheKeys(t *testing.T) {
	calls := func(seed uint64) (all [][]string) {
		synctest.Test(t, func(t *testing.T) {
			cfg := briefCart()
			cfg.Callers, cfg.Hot, cfg.Others, cfg.Cold, cfg.Seed = 1, 3, 4, 1, seed
			callers := make([][][]string, 2)
			newVirtualLoad(cfg, func(worker int) locker {
				return &fakeLocker{ttl: time.Minute, grant: func(names []string) error {
					callers[worker] = append(callers[worker], slices.Clone(names))
					return nil
				}}
			}).run(t.Context())
			all = slices.Concat(callers...)
		})
		return all
	}
	hot := make(map[string]bool)
	all := calls(1)
	for _, names := range all {
		if strings.HasPrefix(names[0], "hot") {
			hot[names[0]] = true
			require.Len(t, names, 5)
			names = names[1:]
		} else {
			require.Len(t, names, 1)
		}
		for _, name := range names {
			require.NotContains(t, name, "hot")
		}
		sorted := slices.Sorted(slices.Values(names))
		require.Len(t, slices.Compact(sorted), len(names))
	}
	require.Equal(t, map[string]bool{"hot0": true, "hot1": true, "hot2": true}, hot)
	require.Equal(t, all, calls(1))
	require.NotEqual(t, all, calls(2))
}

// Goal: the hot key is in use from the grant to the release, by the callers that ask for it. The
// cold callers have figures of their own.
func TestCart_MeasuresTheUseOfTheHotKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := briefCart()
		cfg.Cold = 2
		grant, free := queue()
		l := newVirtualLoad(cfg, func(worker int) locker {
			if worker >= cfg.Callers {
				return &fakeLocker{cost: 5 * time.Millisecond, ttl: time.Minute}
			}
			return &fakeLocker{
				ttl: time.Minute, grant: grant,
				free: func(names []string) error {
					time.Sleep(10 * time.Millisecond)
					return free(names)
				},
			}
		})
		m := l.run(t.Context())
		require.InEpsilon(t, 0.5, m.hot.HotBusy, 0.03, "10 ms of 20, and 10 for the release")
		require.InEpsilon(t, 50, m.hot.HotLocksPerS, 0.03)
		require.InEpsilon(t, 60, m.hot.WaitMs.P50, 0.002, "three others take 20 ms each")
		require.InEpsilon(t, 100, m.hot.Cold.LocksPerS, 0.02, "two callers, 20 ms each")
		require.InEpsilon(t, 5, m.hot.Cold.WaitMs.Max, 0.002)
		require.InEpsilon(t, 5, m.hot.Cold.MaxWaitMs, 1e-9)
		require.InDelta(t, 1, m.hot.Cold.MinShare, 0.02)
		require.InDelta(t, 1, m.hot.Cold.MaxShare, 0.02)
		var waits uint64
		for _, i := range m.series.Intervals {
			waits += i.WaitMs.Calls
		}
		require.InDelta(t, m.hot.HotLocksPerS*m.elapsed.Seconds(), waits, 1e-6,
			"the series has the waits of the callers that are not cold")
	})
}

// Goal: a lease that has run out is not in use.
func TestCart_AUseEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := briefCart()
		cfg.Callers, cfg.Duration = 1, 2*time.Second
		m := newVirtualLoad(cfg, func(int) locker {
			return &fakeLocker{ttl: time.Millisecond}
		}).run(t.Context())
		require.InEpsilon(t, 0.1, m.hot.HotBusy, 1e-6, "1 ms of 10")
	})
}

// Goal: a Client whose callers are never served is seen, and so is the Client that has everything.
func TestCart_ShowsAClientThatStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := briefCart()
		cfg.Clients = 2
		grant, free := queue()
		m := newVirtualLoad(cfg, func(worker int) locker {
			if worker%2 == 0 {
				return starvingLocker{}
			}
			return &fakeLocker{ttl: time.Minute, grant: grant, free: free}
		}).run(t.Context())
		require.Zero(t, m.hot.MinShare)
		require.Zero(t, m.hot.MinClientShare)
		require.InDelta(t, 2, m.hot.MaxShare, 0.02, "two of four have everything")
	})
}

// Goal: two holders of the hot key are a violation, whatever their other keys are.
func TestCart_DetectsTwoHoldersOfTheHotKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := briefCart()
		cfg.Keys = 1_000_000
		m := newVirtualLoad(cfg, func(int) locker {
			return &fakeLocker{cost: time.Millisecond, ttl: time.Minute}
		}).run(t.Context())
		require.NotZero(t, m.violations)
	})
}

// Goal: in an open loop the timetable is for the callers of the hot key alone.
func TestCart_ColdCallersHaveNoTimetable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := briefCart()
		cfg.Callers, cfg.Cold, cfg.Rate, cfg.Duration = 2, 1, 10, 995*time.Millisecond
		m := newVirtualLoad(cfg, func(int) locker {
			return &fakeLocker{ttl: time.Minute}
		}).run(t.Context())
		require.Zero(t, m.unserved)
		require.EqualValues(t, 10*3+100, m.acquired, "10 calls of 3 keys, and one each 10 ms")
	})
}
