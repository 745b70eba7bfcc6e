package leases

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// expireTogether takes n leases that run out at the same instant, and returns just after it.
func expireTogether(t *testing.T, c *lockpipe.Client, name string, n int) []*lockpipe.Lease {
	t.Helper()
	leases := kit.TakeEach(t, c, name, n, lockpipe.WithTTL(time.Second))
	<-leases[0].Done()
	synctest.Wait()
	return leases
}

// The goal: a callback that never returns delays neither other callbacks nor the extension of other
// leases nor Close.
func TestOnLost_ACallbackThatBlocksForEverHoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 3)
		var told kit.Endings
		gate := make(chan struct{})
		defer close(gate)
		c := v.Client(t, kit.OnLost(func(l *lockpipe.Lease, err error) {
			told.Tell(l, err)
			if l.Key() == "stuck" {
				<-gate
			}
		}))
		kept := v.Hold(t, c, "kept", kit.Auto(autoTTL, time.Hour)...)
		stuck := v.Hold(t, c, "stuck", lockpipe.WithTTL(time.Second))
		<-stuck.Done()
		synctest.Wait()
		require.Len(t, told.Of(stuck), 1)
		for round := range 10 {
			for _, l := range expireTogether(t, c, fmt.Sprint(round), 30) {
				require.Len(t, told.Of(l), 1)
			}
		}
		time.Sleep(10 * autoTTL)
		heldEverywhere(t, v, kept)
		require.NoError(t, c.Close(t.Context()))
		kit.Over(t, kept, lockpipe.ErrClosed)
		v.NothingLeft(t)
		require.Len(t, told.All(), 301)
		require.Equal(t, uint64(301), c.Stats().Expired)
		require.Zero(t, c.Stats().DroppedCallbacks)
	})
}

// The goal: 64 callbacks run at the same time, and more of them wait. Each that returns lets the
// next one run, in order, also after Close.
func TestOnLost_TheSixtyFifthCallbackWaits(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			v := kit.NewFakeNodes(t, 3)
			var told kit.Endings
			gate := make(chan struct{})
			c := v.Client(t, kit.OnLost(func(l *lockpipe.Lease, err error) {
				told.Tell(l, err)
				<-gate
			}))
			kept := v.Hold(t, c, "kept", kit.Auto(autoTTL, time.Hour)...)
			expireTogether(t, c, "blocking", 64)
			require.Len(t, told.All(), 64)
			var waiting []*lockpipe.Lease
			for i := range 10 {
				waiting = append(waiting, expireTogether(t, c, fmt.Sprint("waiting", i), 1)...)
			}
			time.Sleep(time.Minute)
			require.Len(t, told.All(), 64)
			heldEverywhere(t, v, kept)
			if closed {
				require.NoError(t, c.Close(t.Context()))
				kit.Over(t, kept, lockpipe.ErrClosed)
			}
			for i, l := range waiting {
				gate <- struct{}{}
				synctest.Wait()
				require.Len(t, told.All(), 65+i)
				require.Equal(t, l, told.All()[64+i].Lease)
			}
			close(gate)
			synctest.Wait()
			require.Len(t, told.All(), 74)
		})
	}
}

// The goal: a callback that panics is logged with its stack and counted, and all other callbacks
// are called.
func TestOnLost_APanicIsLoggedAndCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 3)
		var told kit.Endings
		var log kit.LockedBuffer
		c := v.Client(t, kit.OnLost(func(l *lockpipe.Lease, err error) {
			told.Tell(l, err)
			if strings.HasPrefix(l.Key(), "bad") {
				panicOnPurpose(l.Key())
			}
		}), kit.LogTo(&log))
		for round := range 100 { // more than there are goroutines for callbacks
			expireTogether(t, c, fmt.Sprint("bad", round), 1)
		}
		for _, l := range expireTogether(t, c, "good", 100) {
			require.Len(t, told.Of(l), 1)
		}
		require.Len(t, told.All(), 200)
		require.Equal(t, uint64(100), c.Stats().CallbackPanics)
		lines := kit.LinesWith(&log, "a callback panicked")
		require.Len(t, lines, 100)
		for i, line := range lines {
			require.Contains(t, line, "level=ERROR")
			require.Contains(t, line, fmt.Sprintf("no good: bad%d", i))
			require.Contains(t, line, "panicOnPurpose", "the stack")
			require.Contains(t, line, "onlost_test.go", "the stack")
		}
	})
}

func panicOnPurpose(key string) { panic("no good: " + key) }

// The goal: a callback may use its lease, the client and Close, while others do so too.
func TestOnLost_ACallbackMayUseEverything(t *testing.T) {
	t.Parallel()
	for _, nodes := range []string{"well", "silent"} {
		t.Run(nodes, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := kit.NewFakeNodes(t, 3)
				var c *lockpipe.Client
				ended := make(chan []error, 10)
				c = v.Client(t, kit.Timeout(100*time.Millisecond),
					kit.OnLost(func(l *lockpipe.Lease, _ error) {
						ctx := context.Background()
						errs := []error{
							l.Extend(ctx, autoTTL), l.Release(ctx), c.ReleaseAll(ctx, l),
						}
						_, err := c.TryAcquire(ctx, l.Key())
						errs = append(errs, err)
						closing, cancel := context.WithTimeout(ctx, time.Minute)
						defer cancel()
						_ = c.Close(closing) // an error is for the silent ones
						_, err = c.TryAcquire(ctx, l.Key())
						ended <- append(errs, err)
					}))
				kept := v.Hold(t, c, "kept", kit.Auto(autoTTL, time.Hour)...)
				first := kit.TakeEach(t, c, "first", 10, lockpipe.WithTTL(time.Second))
				if nodes == "silent" {
					v.Silence(0, 1, 2)
				}
				for range first {
					errs := <-ended
					for _, err := range errs[:3] {
						require.ErrorIs(t, err, lockpipe.ErrExpired)
					}
					require.ErrorIs(t, errs[4], lockpipe.ErrClosed)
				}
				require.NoError(t, c.Close(t.Context()))
				kit.Over(t, kept, lockpipe.ErrClosed)
				v.Speak(0, 1, 2)
				synctest.Wait()
			})
		})
	}
}

// The goal: OnLost is called exactly once for each lease that the holder did not end, however the
// client found out. It is not called for a lease that was released or closed.
func TestOnLost_IsCalledOnceIfTheHolderMayNotKnow(t *testing.T) {
	kit.SkipIfShort(t, "OnLost after each kind of end, for many leases")
	t.Parallel()
	const many = 8
	tests := map[string]struct {
		opts []lockpipe.Option
		end  func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client, leases []*lockpipe.Lease)
		told error // nil: not called
	}{
		"released": {
			kit.Auto(autoTTL, time.Hour),
			func(t *testing.T, _ *kit.FakeNodes, c *lockpipe.Client,
				leases []*lockpipe.Lease,
			) {
				require.NoError(t, c.ReleaseAll(t.Context(), leases...))
			}, nil,
		},
		"released, and not confirmed": {kit.Auto(autoTTL, time.Hour), func(t *testing.T, v *kit.FakeNodes,
			c *lockpipe.Client, leases []*lockpipe.Lease,
		) {
			v.Fail(0, kit.ReadOnly)
			v.Fail(1, kit.ReadOnly)
			require.ErrorIs(t, c.ReleaseAll(t.Context(), leases...), lockpipe.ErrNoQuorum)
		}, nil},
		"closed": {
			kit.Auto(autoTTL, time.Hour),
			func(t *testing.T, _ *kit.FakeNodes, c *lockpipe.Client,
				_ []*lockpipe.Lease,
			) {
				require.NoError(t, c.Close(t.Context()))
			}, nil,
		},
		"expired": {
			[]lockpipe.Option{lockpipe.WithTTL(autoTTL)},
			nil,
			lockpipe.ErrExpired,
		},
		"held for maxHold": {kit.Auto(autoTTL, time.Minute), nil, lockpipe.ErrExpired},
		"silent": {kit.Auto(autoTTL, time.Hour), func(_ *testing.T, v *kit.FakeNodes,
			_ *lockpipe.Client, _ []*lockpipe.Lease,
		) {
			v.Silence(0, 1)
		}, lockpipe.ErrLost},
		"found gone by itself": {kit.Auto(autoTTL, time.Hour), takeAway, lockpipe.ErrLost},
		"found gone by Extend": {kit.Auto(autoTTL, time.Hour), func(t *testing.T, v *kit.FakeNodes,
			c *lockpipe.Client, leases []*lockpipe.Lease,
		) {
			takeAway(t, v, c, leases)
			for _, l := range leases {
				require.ErrorIs(t, l.Extend(t.Context(), autoTTL), lockpipe.ErrLost)
				require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrLost)
				require.ErrorIs(t, l.Extend(t.Context(), autoTTL), lockpipe.ErrLost)
			}
		}, lockpipe.ErrLost},
		"found gone by Extend, without automatic extension": {[]lockpipe.Option{lockpipe.WithTTL(
			autoTTL)}, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client,
			leases []*lockpipe.Lease,
		) {
			takeAway(t, v, c, leases)
			for _, l := range leases {
				require.ErrorIs(t, l.Extend(t.Context(), autoTTL), lockpipe.ErrLost)
			}
		}, lockpipe.ErrLost},
		"Release beside the end": {
			[]lockpipe.Option{lockpipe.WithTTL(autoTTL)},
			besideTheEnd((*lockpipe.Lease).Release), lockpipe.ErrExpired,
		},
		"Extend beside the end": {
			[]lockpipe.Option{lockpipe.WithTTL(autoTTL)},
			besideTheEnd(func(l *lockpipe.Lease, ctx context.Context) error {
				return l.Extend(ctx, autoTTL)
			}), lockpipe.ErrExpired,
		},
		"Err beside the end": {
			[]lockpipe.Option{lockpipe.WithTTL(autoTTL)},
			besideTheEnd(func(l *lockpipe.Lease, _ context.Context) error {
				return l.Err()
			}), lockpipe.ErrExpired,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told kit.Endings
			kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
				leases := kit.TakeEach(t, c, "k", many, test.opts...)
				if test.end != nil {
					test.end(t, v, c, leases)
				}
				time.Sleep(2 * time.Minute)
				v.Speak(0, 1)
				require.NoError(t, c.Close(t.Context()))
				synctest.Wait()
				if test.told == nil {
					require.Empty(t, told.All())
					return
				}
				require.Len(t, told.All(), many)
				for _, l := range leases {
					require.Len(t, told.Of(l), 1)
					require.ErrorIs(t, told.Of(l)[0].Err, test.told)
					require.Equal(t, l.Err(), told.Of(l)[0].Err)
				}
				require.Equal(t, uint64(many), c.Stats().Lost+c.Stats().Expired)
			}, kit.OnLost(told.Tell), kit.Timeout(100*time.Millisecond))
		})
	}
}

// takeAway deletes the leases' keys on a majority.
func takeAway(_ *testing.T, v *kit.FakeNodes, _ *lockpipe.Client, leases []*lockpipe.Lease) {
	for _, l := range leases {
		for i := range len(v.Nodes)/2 + 1 {
			v.Del(i, l.Key())
		}
	}
}

// besideTheEnd makes a call for each lease at the very moment when its time is up, so that either
// finds out first.
func besideTheEnd(call func(l *lockpipe.Lease, ctx context.Context) error) func(*testing.T,
	*kit.FakeNodes, *lockpipe.Client, []*lockpipe.Lease) {
	return func(t *testing.T, _ *kit.FakeNodes, _ *lockpipe.Client, leases []*lockpipe.Lease) {
		errs := make([]error, len(leases))
		var calls sync.WaitGroup
		for i, l := range leases {
			calls.Go(func() {
				time.Sleep(time.Until(l.Until()))
				errs[i] = call(l, context.Background())
			})
		}
		calls.Wait()
		for _, err := range errs {
			require.ErrorIs(t, err, lockpipe.ErrExpired)
		}
	}
}

// The goal: many leases that are lost together make one line in the log. Those that are not in it
// are in the next one.
func TestOnLost_LeasesLostTogetherMakeOneLine(t *testing.T) {
	kit.SkipIfShort(t, "the log of very many lost leases")
	t.Parallel()
	var log kit.LockedBuffer
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		const many = 100
		for round := 1; round <= 3; round++ {
			leases := kit.TakeEach(t, c, fmt.Sprint(round), many, kit.Auto(autoTTL, time.Hour)...)
			v.Silence(0, 1)
			<-leases[0].Done()
			synctest.Wait()
			require.Equal(t, uint64(many*round), c.Stats().Lost)
			v.Speak(0, 1)
			time.Sleep(time.Minute)
			lines := kit.LinesWith(&log, "lease lost")
			require.Len(t, lines, round)
			require.Contains(t, lines[round-1], "level=WARN")
			require.Contains(t, lines[round-1], "not extended in time")
		}
		last := v.Hold(t, c, "last", kit.Auto(autoTTL, time.Hour)...)
		takeAway(t, v, c, []*lockpipe.Lease{last})
		<-last.Done()
		time.Sleep(time.Minute)
		total := 0
		for _, line := range kit.LinesWith(&log, "lease lost") {
			_, rest, _ := strings.Cut(line, "leases=")
			n := 0
			_, err := fmt.Sscan(rest, &n)
			require.NoError(t, err)
			total += n
		}
		require.Equal(t, 3*many+1, total, "each is counted in one line: %s", log.String())
	}, kit.LogTo(&log), kit.Timeout(100*time.Millisecond))
}

// The goal: if all callbacks but one block, the last place is used again and again, and every
// callback is called.
func TestOnLost_TheLastFreePlaceServesAllCallbacks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 1)
		var told atomic.Int64
		gate := make(chan struct{})
		defer close(gate)
		c := v.Client(t, kit.OnLost(func(l *lockpipe.Lease, _ error) {
			if strings.HasPrefix(l.Key(), "blocking") {
				<-gate
			}
			told.Add(1)
		}))
		expireTogether(t, c, "blocking", 63)
		for round := range 300 {
			n := 1 + round%8
			before := told.Load()
			expireTogether(t, c, fmt.Sprint(round), n)
			require.Equal(t, before+int64(n), told.Load(), "round %d", round)
		}
	})
}
