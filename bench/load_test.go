package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/errorkinds"
	"github.com/lockpipe/lockpipe/bench/series"
)

// fakeLocker is a caller of an imaginary lock service: each call takes some time, and grant decides
// whether it is granted.
type fakeLocker struct {
	cost  time.Duration
	grant func(names []string) error // nil: everything is granted
	free  func(names []string) error // nil: everything is released
	ttl   time.Duration
	fence func() int64 // nil: there are none

	names   []string
	results [1]result
}

func (l *fakeLocker) lock(_ context.Context, names []string) []result {
	time.Sleep(l.cost)
	l.names = names
	l.results[0] = result{keys: len(names), held: true, until: time.Now().Add(l.ttl)}
	if l.fence != nil {
		l.results[0].fence = l.fence()
	}
	if l.grant != nil {
		if err := l.grant(names); err != nil {
			l.results[0] = result{keys: len(names), err: err}
		}
	}
	return l.results[:]
}

func (l *fakeLocker) unlock(context.Context) {
	time.Sleep(l.cost)
	if l.free != nil {
		l.results[0].err = l.free(l.names)
	}
}

// lockTable is a correct lock service for fake takers: each key has at most one holder, until
// the release.
type lockTable struct {
	mu   sync.Mutex
	held map[string]bool // guarded by mu
}

func (l *lockTable) grant(names []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[names[0]] {
		return lockpipe.ErrHeld
	}
	l.held[names[0]] = true
	return nil
}

func (l *lockTable) free(names []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, names[0])
	return nil
}

// newVirtualLoad is newLoad with all sleep in virtual time.
func newVirtualLoad(cfg Config, newLocker func(worker int) locker) *load {
	l := newLoad(cfg, "", newLocker)
	l.preciseSleep = time.Sleep
	return l
}

// Goal: a service that grants a key twice is detected, and there is no false alarm about one that
// does not. Both have the same callers.
func TestLoad_DetectsAServiceThatGrantsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig(Single)
		cfg.Callers, cfg.Keys, cfg.Duration, cfg.Hold = 8, 3, time.Second, 3*time.Millisecond

		table := &lockTable{held: make(map[string]bool)}
		correct := newVirtualLoad(cfg, func(int) locker {
			return &fakeLocker{
				cost: time.Millisecond, ttl: time.Minute, grant: table.grant,
				free: table.free,
			}
		}).run(t.Context())
		require.Zero(t, correct.violations)
		require.NotZero(t, correct.acquired)
		require.NotZero(t, correct.counts.Refused)
		require.Equal(t, correct.acquired, correct.counts.Released)

		broken := newVirtualLoad(cfg, func(int) locker {
			return &fakeLocker{cost: time.Millisecond, ttl: time.Minute}
		}).run(t.Context())
		require.NotZero(t, broken.violations)
	})
}

// Goal: a single doubled grant in a long run of right ones is detected.
func TestLoad_DetectsOneDoubledGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig(Single)
		cfg.Callers, cfg.Keys, cfg.Duration, cfg.Hold = 4, 1, time.Second, 5*time.Millisecond
		table := &lockTable{held: make(map[string]bool)}
		doubled := false
		m := newVirtualLoad(cfg, func(int) locker {
			return &fakeLocker{
				cost: time.Millisecond, ttl: time.Minute, free: table.free,
				grant: func(names []string) error {
					err := table.grant(names)
					table.mu.Lock()
					defer table.mu.Unlock()
					if err != nil && !doubled {
						doubled = true
						return nil
					}
					return err
				},
			}
		}).run(t.Context())
		require.NotZero(t, m.violations)
	})
}

// Goal: in an open loop the latency of a call counts from when it was due, so it includes the wait
// for a free caller. Calls that never found one are reported.
func TestOpenLoop_CountsFromWhenACallWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig(Single)
		cfg.Callers, cfg.Rate, cfg.Duration = 1, 100, 1995*time.Millisecond
		// Each round takes 20 ms and one is due every 10 ms: round n is due at 10n, starts at 20n
		// and is granted at 20n+10.
		m := newVirtualLoad(cfg, func(int) locker {
			return &fakeLocker{cost: 10 * time.Millisecond, ttl: time.Minute}
		}).run(t.Context())
		require.EqualValues(t, 100, m.acquired)
		require.InEpsilon(t, 99*10+10, m.acquire.Max, 0.002,
			"round 99 was due at 990 ms and granted at 1990 ms")
		require.InEpsilon(t, 49*10+10, m.acquire.P50, 0.002)
		require.InEpsilon(t, 10, m.release.Max, 0.002)
		require.EqualValues(t, 100, m.unserved, "200 were due")
	})
}

// Goal: while there are free callers, an open loop makes every call when it is due, and no others.
func TestOpenLoop_KeepsToItsTimetable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig(Single)
		cfg.Callers, cfg.Rate, cfg.Duration = 10, 100, 995*time.Millisecond
		m := newVirtualLoad(cfg, func(int) locker {
			return &fakeLocker{cost: 7 * time.Millisecond, ttl: time.Minute}
		}).run(t.Context())
		require.EqualValues(t, 100, m.acquired)
		require.InEpsilon(t, 7, m.acquire.Max, 0.002)
		require.Zero(t, m.unserved)
	})
}

// Goal: in a closed loop a caller calls again as soon as its call is over.
func TestClosedLoop_CallsAgainWhenDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig(Batch)
		cfg.Callers, cfg.Keys, cfg.Batch, cfg.Duration, cfg.Hold = 2, 1000, 50,
			993*time.Millisecond, 3*time.Millisecond
		m := newVirtualLoad(cfg, func(worker int) locker {
			return &fakeLocker{cost: time.Millisecond, ttl: time.Minute}
		}).run(t.Context())
		require.EqualValues(t, 2*199*50, m.acquired, "keys, in rounds of 5 ms")
		require.Equal(t, m.acquired, m.counts.Released)
	})
}

// Goal: if the run ends early, held keys are released at once, and everything so far is counted.
func TestLoad_AnEarlyEndReleasesAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cfg := DefaultConfig(Single)
		cfg.Callers, cfg.Duration, cfg.Hold = 4, time.Hour, 10*time.Minute
		cfg.Progress = func(_ time.Duration, locks uint64) {
			if locks == 4 {
				cancel()
			}
		}
		m := newVirtualLoad(cfg, func(int) locker { return &fakeLocker{ttl: time.Hour} }).run(ctx)
		require.EqualValues(t, 4, m.acquired)
		require.EqualValues(t, 4, m.counts.Released)
		require.Less(t, m.elapsed, time.Minute)
	})
}

// Goal: a call that the end of the run cut off is no failure of the service.
func TestLoad_ACallThatIsCutOffDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cfg := DefaultConfig(Hot)
		cfg.Callers = 1
		m := newVirtualLoad(cfg, func(int) locker {
			return &fakeLocker{ttl: time.Minute, grant: func([]string) error {
				cancel()
				return fmt.Errorf("waited for a holder (%w): %w", lockpipe.ErrHeld,
					context.Canceled)
			}}
		}).run(ctx)
		require.Equal(t, counts{}, m.counts)
		require.Zero(t, m.acquired)
	})
}

// Goal: a release that was not confirmed in time is tried again, and counts as released when it is
// confirmed.
func TestLoad_RetriesAnUnconfirmedRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig(Single)
		cfg.Callers, cfg.Duration = 1, 50*time.Millisecond
		tries := 0
		m := newVirtualLoad(cfg, func(int) locker {
			return &fakeLocker{ttl: time.Minute, free: func([]string) error {
				if tries++; tries%3 != 0 {
					return lockpipe.ErrNoQuorum
				}
				return nil
			}}
		}).run(t.Context())
		require.NotZero(t, m.acquired)
		require.Equal(t, released(m.acquired), m.counts)
		require.EqualValues(t, 3*m.acquired, tries)
	})
}

// Goal: a release that is never confirmed is given up when the lease's time has passed, and counts
// as an error.
func TestLoad_AReleaseIsRetriedUntilTheLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig(Single)
		cfg.Callers, cfg.Duration = 1, 50*time.Millisecond
		m := newVirtualLoad(cfg, func(int) locker {
			return &fakeLocker{
				cost: time.Millisecond, ttl: time.Second,
				free: func([]string) error { return lockpipe.ErrNoQuorum },
			}
		}).run(t.Context())
		require.Equal(t, counts{
			Tally: series.Tally{Errors: 1}, firstError: lockpipe.ErrNoQuorum,
			byKind: errorkinds.Counts{"no quorum": 1},
		}, m.counts)
		require.InDelta(t, time.Second, m.elapsed, float64(2*releasePause))
	})
}

// released returns the counts of so many keys that were released, and of nothing else.
func released(keys uint64) counts { return counts{Tally: series.Tally{Released: keys}} }

// Goal: each way in which an acquire or a release can end has its own count, in keys.
func TestCounts_AreOfKeys(t *testing.T) {
	unknown := errors.New("no such thing")
	var c counts
	for _, err := range []error{lockpipe.ErrHeld, lockpipe.ErrNoQuorum, unknown} {
		c.fail(result{keys: 3, err: fmt.Errorf("wrapped: %w", err)})
	}
	for _, err := range []error{nil, lockpipe.ErrExpired, lockpipe.ErrLost, lockpipe.ErrNoQuorum} {
		c.end(result{keys: 5, held: true, err: err})
	}
	require.ErrorIs(t, c.firstError, unknown)
	c.firstError = nil
	want := errorkinds.Counts{"no quorum": 2, "no such thing": 1} // of calls, not of keys
	require.Equal(t, counts{byKind: want, Tally: series.Tally{
		Released: 5, Refused: 3, NoQuorum: 3, Expired: 5, Lost: 5, Errors: 3 + 5,
	}}, c)
}

// Goal: a fence that is not above earlier ones is counted, for each key, unless its lease has ended
// by then.
func TestLoad_CountsFencesThatGoBack(t *testing.T) {
	for _, c := range []struct {
		ttl    time.Duration
		fences []int64
		want   uint64
	}{
		{time.Hour, []int64{1, 2, 3, 7, 8}, 0},
		{time.Hour, []int64{5, 4, 6, 6, 7}, 4},
		{time.Hour, []int64{0, 1, 2, 3, 4}, 2},
		{0, []int64{5, 4, 3, 2, 1}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := DefaultConfig(Batch)
			cfg.Callers, cfg.Keys, cfg.Batch, cfg.Fencing, cfg.Duration = 1, 2, 2, true,
				10*time.Second
			l := newVirtualLoad(cfg, func(int) locker {
				next := 0
				return &fakeLocker{cost: time.Second, ttl: c.ttl, fence: func() int64 {
					next++
					return c.fences[(next-1)%len(c.fences)] + int64((next-1)/len(c.fences))*1000
				}}
			})
			m := l.run(t.Context())
			var r Report
			r.fill(m)
			require.Equal(t, c.want, r.FenceRegressions)
			require.Equal(t, c.want == 0, r.Safe())
		})
	}
}
