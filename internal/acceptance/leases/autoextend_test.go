package leases

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: a lease that is extended automatically is held on all nodes until exactly maxHold after
// the call, for any TTL and maxHold. Then its error names maxHold, and nothing is left on the
// nodes.
func TestAutoExtend_HoldsUntilMaxHold(t *testing.T) {
	kit.SkipIfShort(t, "holds of many minutes of virtual time")
	t.Parallel()
	tests := map[string]struct {
		n            int
		ttl, maxHold time.Duration
		extended     bool
		within       time.Duration // after which nothing is left on the nodes
	}{
		"one node":                     {1, autoTTL, 3 * time.Minute, true, 0},
		"three nodes":                  {3, autoTTL, 10 * time.Minute, true, 0},
		"five nodes":                   {5, autoTTL, 3 * time.Minute, true, 0},
		"a short TTL":                  {3, 200 * time.Millisecond, 20 * time.Second, true, 0},
		"the longest TTL":              {3, time.Minute, 10 * time.Minute, true, 0},
		"a TTL as long as maxHold":     {3, autoTTL, autoTTL, true, 0},
		"a TTL a little above maxHold": {3, autoTTL, autoTTL - time.Millisecond, true, 0},
		"a TTL longer than maxHold": {
			3, autoTTL, 5 * time.Second, false,
			100 * time.Millisecond,
		},
		"a TTL much longer than maxHold": {
			3, time.Minute, 10 * time.Millisecond, false,
			20 * time.Millisecond,
		},
		"maxHold in parts of millisecond": {
			3, autoTTL, time.Minute + 123456*time.Nanosecond, true,
			0,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told kit.Endings
			kit.InBubble(t, test.n, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
				begin := time.Now()
				l := v.Hold(t, c, "k", kit.Auto(test.ttl, test.maxHold)...)
				for step := test.maxHold / 100; time.Since(begin)+step < test.maxHold; {
					time.Sleep(step)
					heldEverywhere(t, v, l)
					require.False(t, l.Until().After(begin.Add(test.maxHold)),
						"Until is beyond maxHold")
				}
				<-l.Done()
				require.Equal(t, test.maxHold, time.Since(begin))
				kit.Over(t, l, lockpipe.ErrExpired)
				require.NotErrorIs(t, l.Err(), lockpipe.ErrLost)
				require.ErrorContains(t, context.Cause(l.Context()), "maxHold")
				time.Sleep(test.within)
				v.NothingLeft(t)
				require.Equal(t, test.extended, c.Stats().Extended > 0)
				require.Equal(t, []kit.Ending{
					{Lease: l, Err: l.Err(), At: begin.Add(test.maxHold)},
				}, told.All())
			}, kit.OnLost(told.Tell))
		})
	}
}

// The goal: a maxHold that makes no sense is refused by every call before anything is sent, and the
// least that does is taken.
func TestAutoExtend_AMaxHoldThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		for _, maxHold := range []time.Duration{
			0, -1, -time.Hour, math.MinInt64, 1,
			10*time.Millisecond - 1,
		} {
			for call, acquire := range kit.Acquiring {
				err := acquire(t.Context(), c, []string{"k"}, lockpipe.WithMaxAttempts(1),
					lockpipe.WithAutoExtend(maxHold))
				require.ErrorIs(t, err, lockpipe.ErrInvalid, "%s, %v", call, maxHold)
				require.ErrorContains(t, err, "WithAutoExtend("+maxHold.String()+")", call)
				require.ErrorContains(t, err, "10ms", call)
			}
		}
		synctest.Wait()
		require.Zero(t, c.Stats().Operations)
		require.Zero(t, v.ExecutedOnAll("SET")+v.ExecutedOnAll("EVALSHA"))
		for _, maxHold := range []time.Duration{10 * time.Millisecond, math.MaxInt64} {
			l := v.Hold(t, c, "k", kit.Auto(autoTTL, maxHold)...)
			require.NoError(t, l.Release(t.Context()))
			synctest.Wait()
		}
	})
}

// The goal: an automatic extension that fails or hangs on a majority is tried again. It keeps the
// lease if the nodes recover before the last confirmed time is over.
func TestAutoExtend_AFailedExtensionIsRetriedInTime(t *testing.T) {
	t.Parallel()
	faults := map[string]func(v *kit.FakeNodes, i int){
		"OOM":     func(v *kit.FakeNodes, i int) { v.Fail(i, kit.OutOfMemory) },
		"BUSY":    func(v *kit.FakeNodes, i int) { v.Fail(i, "BUSY Redis is busy running a script.") },
		"unknown": func(v *kit.FakeNodes, i int) { v.Fail(i, "ERR whatever") },
		"silent":  func(v *kit.FakeNodes, i int) { v.Silence(i) },
	}
	for name, strike := range faults {
		for n, left := range map[int]time.Duration{3: 50 * time.Millisecond, 5: time.Second} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var told kit.Endings
				kit.InBubble(t, n, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
					l := v.Hold(t, c, "k", kit.Auto(autoTTL, time.Hour)...)
					for range 5 {
						synctest.Wait()
						until := l.Until()
						for i := range n/2 + 1 {
							strike(v, i)
						}
						time.Sleep(time.Until(until) - left)
						require.Equal(t, until, l.Until(), "nothing was confirmed")
						v.Heal(kit.Span(0, n)...)
						v.Speak(kit.Span(0, n)...)
						time.Sleep(left)
						kit.Lasting(t, l)
					}
					time.Sleep(autoTTL)
					heldEverywhere(t, v, l)
					require.NoError(t, l.Release(t.Context()))
					v.NothingLeft(t)
					require.Empty(t, told.All())
				}, kit.OnLost(told.Tell), kit.Timeout(100*time.Millisecond))
			})
		}
	}
}

// The goal: if the extensions of a majority hang, the holder is notified of the loss exactly at the
// end of the last confirmed validity, and once. When the nodes continue, however late, they keep
// nothing of what they were sent.
func TestAutoExtend_AHungExtensionIsALossAtTheLastConfirmedDeadline(t *testing.T) {
	kit.SkipIfShort(t, "extensions that hang")
	t.Parallel()
	tests := map[string]struct {
		n, silent int
		confirmed time.Duration // how long all goes well
		later     time.Duration // how long after the loss the nodes continue; long: above MaxTTL
	}{
		"two of three, before the first extension": {3, 2, 0, time.Second},
		"two of three":          {3, 2, time.Minute, time.Second},
		"all of three":          {3, 3, time.Minute, 0},
		"three of five":         {5, 3, 25 * time.Second, 30 * time.Second},
		"all of five, for long": {5, 5, time.Minute, 70 * time.Second},
		"one of one, for long":  {1, 1, time.Minute, 70 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told kit.Endings
			kit.InBubble(t, test.n, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
				l := v.Hold(t, c, "k", kit.Auto(autoTTL, time.Hour)...)
				time.Sleep(test.confirmed)
				synctest.Wait()
				kit.Lasting(t, l)
				deadline := l.Until()
				v.Silence(kit.Span(0, test.silent)...)
				<-l.Done()
				require.Equal(t, deadline, time.Now())
				kit.Over(t, l, lockpipe.ErrLost)
				require.NotErrorIs(t, l.Err(), lockpipe.ErrExpired)
				require.Positive(t, v.Hanging(0), "the extension hangs")
				synctest.Wait()
				require.Equal(t, []kit.Ending{{Lease: l, Err: l.Err(), At: deadline}}, told.All())
				time.Sleep(test.later)
				v.Speak(kit.Span(0, test.silent)...)
				time.Sleep(time.Second) // where a connection was given up it comes back first
				v.NothingLeft(t)
				time.Sleep(time.Minute)
				v.NothingLeft(t)
				require.Len(t, told.All(), 1)
				require.Equal(t, uint64(1), c.Stats().Lost)
			}, kit.OnLost(told.Tell), kit.Timeout(200*time.Millisecond))
		})
	}
}

// failing lets nodes answer with this error.
func failing(message string) func(v *kit.FakeNodes, which ...int) {
	return func(v *kit.FakeNodes, which ...int) {
		for _, i := range which {
			v.Fail(i, message)
		}
	}
}

// The goal: a minority that stays silent, or always fails, ends no lease. It gets the release when
// it continues.
func TestAutoExtend_ASilentMinorityCostsNoLease(t *testing.T) {
	kit.SkipIfShort(t, "long holds while a minority is silent or fails")
	t.Parallel()
	for n, bad := range map[int]int{3: 1, 4: 1, 5: 2} {
		for name, strike := range map[string]func(v *kit.FakeNodes, which ...int){
			"silent":  (*kit.FakeNodes).Silence,
			"failing": failing(kit.ReadOnly),
			"busy":    failing("BUSY Redis is busy running a script."),
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var told kit.Endings
				kit.InBubble(t, n, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
					l := v.Hold(t, c, "k", kit.Auto(autoTTL, 24*time.Hour)...)
					strike(v, kit.Span(0, bad)...)
					for range 7 { // longer than MaxTTL
						time.Sleep(autoTTL)
						kit.Lasting(t, l)
						for i := bad; i < n; i++ {
							require.Equal(t, l.Token(), v.Get(i, "k"))
						}
					}
					require.NoError(t, l.Release(t.Context()))
					synctest.Wait() // the minority was sent it
					v.Heal(kit.Span(0, bad)...)
					v.Speak(kit.Span(0, bad)...)
					time.Sleep(time.Second)
					v.NothingLeft(t)
					require.Empty(t, told.All())
					require.Zero(t, c.Stats().Lost)
				}, kit.OnLost(told.Tell), kit.Timeout(200*time.Millisecond))
			})
		}
	}
}

// The goal: a lease with a huge maxHold is extended as often as any other, and lasts, whatever its
// TTL.
func TestAutoExtend_AHugeMaxHoldExtendsAsUsual(t *testing.T) {
	t.Parallel()
	for _, d := range kit.Huge {
		t.Run(d.String(), func(t *testing.T) {
			kit.InBubble(t, 1, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
				forever := lockpipe.WithAutoExtend(d)
				short := v.Hold(t, c, "short", lockpipe.WithTTL(time.Second), forever)
				long := v.Hold(t, v.Client(t, kit.Longest), "long", forever)
				before := v.Executed(0, "EVALSHA")
				time.Sleep(30 * time.Second)
				kit.Lasting(t, short)
				kit.Lasting(t, long)
				require.LessOrEqual(t, time.Until(short.Until()), time.Second)
				// One after each third to two thirds of the second.
				require.InDelta(t, 65, v.Executed(0, "EVALSHA")-before, 25)
				require.NoError(t, short.Release(t.Context()))
				require.NoError(t, long.Release(t.Context()))
			})
		})
	}
}

// The goal: a lease whose keys are gone from a majority is found lost by the next automatic
// extension, before its time is over. OnLost is called once, the minority's keys are released, and
// what another has on the nodes stays as it is.
func TestAutoExtend_FindsALeaseLost(t *testing.T) {
	t.Parallel()
	for _, owner := range []string{"", "another"} {
		for _, n := range []int{1, 3} {
			t.Run(fmt.Sprintf("%d of %d now %q", n/2+1, n, owner), func(t *testing.T) {
				t.Parallel()
				var told kit.Endings
				kit.InBubble(t, n, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
					l := v.Hold(t, c, "k", kit.Auto(autoTTL, time.Hour)...)
					time.Sleep(25 * time.Second)
					synctest.Wait()
					until := l.Until()
					for i := range n/2 + 1 {
						v.Del(i, "k")
						if owner != "" {
							v.Set(i, "k", owner)
						}
					}
					<-l.Done()
					require.True(t, time.Now().Before(until), "it ran out")
					kit.Over(t, l, lockpipe.ErrLost)
					require.ErrorContains(t, l.Err(), "do not hold it any more")
					synctest.Wait()
					require.Equal(t, []kit.Ending{
						{Lease: l, Err: l.Err(), At: time.Now()},
					}, told.All())
					require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrLost)
					time.Sleep(5 * time.Second)
					for i := range n {
						want := ""
						if i <= n/2 {
							want = owner
						}
						require.Equal(t, want, v.Get(i, "k"), "node %d", i)
					}
					require.Len(t, told.All(), 1)
				}, kit.OnLost(told.Tell))
			})
		}
	}
}

// The goal: a lease whose keys are gone from a minority is kept, and the keys are set again there.
func TestAutoExtend_RefillsAMinority(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			var told kit.Endings
			kit.InBubble(t, n, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
				l := v.Hold(t, c, "k", kit.Auto(autoTTL, time.Hour)...)
				for range 3 {
					for i := range n / 2 {
						v.Del(i, "k")
					}
					time.Sleep(autoTTL)
					heldEverywhere(t, v, l)
				}
				require.NoError(t, l.Release(t.Context()))
				v.NothingLeft(t)
				require.Empty(t, told.All())
			}, kit.OnLost(told.Tell))
		})
	}
}

const autoTTL = 10 * time.Second

// heldEverywhere wants the lease's key on each node, for a while to come.
func heldEverywhere(t *testing.T, v *kit.FakeNodes, l *lockpipe.Lease) {
	t.Helper()
	kit.Lasting(t, l)
	for i := range v.Nodes {
		require.Equal(t, l.Token(), v.Get(i, l.Key()), "node %d", i)
		require.Positive(t, v.Ttl(i, l.Key()), "node %d", i)
	}
}
