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
)

// fakeTaker is a caller of an imaginary lock service: each call takes some time, and is granted
// what grant says.
type fakeTaker struct {
	cost  time.Duration
	grant func(names []string) error // nil: everything is granted
	free  func(names []string) error // nil: everything is released
	ttl   time.Duration
	fence func() int64 // nil: there are none

	names  []string
	answer [1]grant
}

func (t *fakeTaker) take(_ context.Context, names []string) []grant {
	pass(t.cost)
	t.names, t.answer[0] = names, grant{keys: len(names), held: true, until: time.Now().Add(t.ttl)}
	if t.fence != nil {
		t.answer[0].fence = t.fence()
	}
	if t.grant != nil {
		if err := t.grant(names); err != nil {
			t.answer[0] = grant{keys: len(names), err: err}
		}
	}
	return t.answer[:]
}

func (t *fakeTaker) give(context.Context) {
	pass(t.cost)
	if t.free != nil {
		t.answer[0].err = t.free(t.names)
	}
}

// pass lets time pass.
func pass(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// lockTable is a correct lock service for fake takers: one holder a key, who keeps it until the
// release.
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
func newVirtualLoad(cfg Config, newTaker func(worker int) taker) *load {
	l := newLoad(cfg, "", newTaker)
	l.nap = pass
	return l
}

// A service that grants a key twice is found out, and one that does not is not accused. Both see
// the same callers.
func TestLoadDetectsAServiceThatGrantsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default(Single)
		cfg.Callers, cfg.Keys, cfg.Duration, cfg.Hold = 8, 3, time.Second, 3*time.Millisecond

		table := &lockTable{held: make(map[string]bool)}
		correct := newVirtualLoad(cfg, func(int) taker {
			return &fakeTaker{
				cost: time.Millisecond, ttl: time.Minute, grant: table.grant,
				free: table.free,
			}
		}).run(t.Context())
		require.Zero(t, correct.violated)
		require.NotZero(t, correct.acquired)
		require.NotZero(t, correct.counts.refused)
		require.Equal(t, correct.acquired, correct.counts.released)

		broken := newVirtualLoad(cfg, func(int) taker {
			return &fakeTaker{cost: time.Millisecond, ttl: time.Minute}
		}).run(t.Context())
		require.NotZero(t, broken.violated)
	})
}

// A single doubled grant in a long run of right ones is enough.
func TestLoadDetectsOneDoubledGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default(Single)
		cfg.Callers, cfg.Keys, cfg.Duration, cfg.Hold = 4, 1, time.Second, 5*time.Millisecond
		table := &lockTable{held: make(map[string]bool)}
		doubled := false
		m := newVirtualLoad(cfg, func(int) taker {
			return &fakeTaker{
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
		require.NotZero(t, m.violated)
	})
}

// In an open loop a call's latency counts from when it was due, so the time it waited for a free
// caller is in it; and calls that never found one are told.
func TestOpenLoopCountsFromWhenACallWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default(Single)
		cfg.Callers, cfg.Rate, cfg.Duration = 1, 100, 1995*time.Millisecond
		// Each round takes 20 ms and one is due every 10 ms: round n is due at 10n, starts at 20n
		// and is granted at 20n+10.
		m := newVirtualLoad(cfg, func(int) taker {
			return &fakeTaker{cost: 10 * time.Millisecond, ttl: time.Minute}
		}).run(t.Context())
		require.EqualValues(t, 100, m.acquired)
		require.InEpsilon(t, 99*10+10, m.acquire.Max, 0.002,
			"round 99 was due at 990 ms and granted at 1990 ms")
		require.InEpsilon(t, 49*10+10, m.acquire.P50, 0.002)
		require.InEpsilon(t, 10, m.release.Max, 0.002)
		require.EqualValues(t, 100, m.unserved, "200 were due")
	})
}

// While there are free callers an open loop makes every call when it is due, and no more than that.
func TestOpenLoopKeepsToItsTimetable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default(Single)
		cfg.Callers, cfg.Rate, cfg.Duration = 10, 100, 995*time.Millisecond
		m := newVirtualLoad(cfg, func(int) taker {
			return &fakeTaker{cost: 7 * time.Millisecond, ttl: time.Minute}
		}).run(t.Context())
		require.EqualValues(t, 100, m.acquired)
		require.InEpsilon(t, 7, m.acquire.Max, 0.002)
		require.Zero(t, m.unserved)
	})
}

// A closed loop calls again as soon as it is done.
func TestClosedLoopCallsAgainWhenDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default(Batch)
		cfg.Callers, cfg.Keys, cfg.Batch, cfg.Duration, cfg.Hold = 2, 1000, 50,
			993*time.Millisecond, 3*time.Millisecond
		m := newVirtualLoad(cfg, func(worker int) taker {
			return &fakeTaker{cost: time.Millisecond, ttl: time.Minute}
		}).run(t.Context())
		require.EqualValues(t, 2*199*50, m.acquired, "keys, in rounds of 5 ms")
		require.Equal(t, m.acquired, m.counts.released)
	})
}

// When the run is ended early, what is held is released at once, and everything so far is counted.
func TestEarlyEndReleasesAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cfg := Default(Single)
		cfg.Callers, cfg.Duration, cfg.Hold = 4, time.Hour, 10*time.Minute
		cfg.Progress = func(_ time.Duration, locks uint64) {
			if locks == 4 {
				cancel()
			}
		}
		m := newVirtualLoad(cfg, func(int) taker { return &fakeTaker{ttl: time.Hour} }).run(ctx)
		require.EqualValues(t, 4, m.acquired)
		require.EqualValues(t, 4, m.counts.released)
		require.Less(t, m.elapsed, time.Minute)
	})
}

// A take that the end of the run cut off is no failure of the service.
func TestCutOffTakeIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cfg := Default(Hot)
		cfg.Callers = 1
		m := newVirtualLoad(cfg, func(int) taker {
			return &fakeTaker{ttl: time.Minute, grant: func([]string) error {
				cancel()
				return fmt.Errorf("waited for a holder (%w): %w", lockpipe.ErrHeld,
					context.Canceled)
			}}
		}).run(ctx)
		require.Equal(t, counts{}, m.counts)
		require.Zero(t, m.acquired)
	})
}

// A release that was not confirmed in time is asked for again, and counts as released once it is
// confirmed.
func TestUnconfirmedReleaseIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default(Single)
		cfg.Callers, cfg.Duration = 1, 50*time.Millisecond
		tries := 0
		m := newVirtualLoad(cfg, func(int) taker {
			return &fakeTaker{cost: time.Millisecond, ttl: time.Minute, free: func([]string) error {
				if tries++; tries%3 != 0 {
					return lockpipe.ErrNoQuorum
				}
				return nil
			}}
		}).run(t.Context())
		require.NotZero(t, m.acquired)
		require.Equal(t, counts{released: m.acquired}, m.counts)
		require.EqualValues(t, 3*m.acquired, tries)
	})
}

// A release that is never confirmed is given up when the lease's time has passed, and told as an
// error.
func TestUnconfirmedReleaseEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default(Single)
		cfg.Callers, cfg.Duration = 1, 50*time.Millisecond
		m := newVirtualLoad(cfg, func(int) taker {
			return &fakeTaker{
				cost: time.Millisecond, ttl: time.Second,
				free: func([]string) error { return lockpipe.ErrNoQuorum },
			}
		}).run(t.Context())
		require.Equal(t, counts{
			errors: 1, firstError: lockpipe.ErrNoQuorum,
			kinds: kinds{"no quorum": 1},
		}, m.counts)
		require.InDelta(t, time.Second, m.elapsed, float64(2*releasePause))
	})
}

// Each way in which a take or a release can end has its own count, in keys.
func TestOutcomesAreCountedInKeys(t *testing.T) {
	unknown := errors.New("no such thing")
	var c counts
	for _, err := range []error{lockpipe.ErrHeld, lockpipe.ErrNoQuorum, unknown} {
		c.fail(grant{keys: 3, err: fmt.Errorf("wrapped: %w", err)})
	}
	for _, err := range []error{nil, lockpipe.ErrExpired, lockpipe.ErrLost, lockpipe.ErrNoQuorum} {
		c.end(grant{keys: 5, held: true, err: err})
	}
	require.ErrorIs(t, c.firstError, unknown)
	c.firstError = nil
	want := kinds{"no quorum": 2, "no such thing": 1} // of calls, not of keys
	require.Equal(t, counts{released: 5, refused: 3, noQuorum: 3, expired: 5, lost: 5, errors: 3 +
		5, kinds: want}, c)
}

// A fence that is not above those before it is counted, for each key, unless its lease is over by
// then.
func TestFencesThatGoBackAreCounted(t *testing.T) {
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
			cfg := Default(Batch)
			cfg.Callers, cfg.Keys, cfg.Batch, cfg.Fencing, cfg.Duration = 1, 2, 2, true,
				10*time.Second
			l := newVirtualLoad(cfg, func(int) taker {
				next := 0
				return &fakeTaker{cost: time.Second, ttl: c.ttl, fence: func() int64 {
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
