package lockpipe_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// The goal: a lease that is extended automatically is held on all nodes until exactly maxHold after
// the call, for any TTL and maxHold. Then its error names maxHold, and nothing is left on the
// nodes.
func TestAutoExtend_HoldsUntilMaxHold(t *testing.T) {
	skipIfShort(t, "holds of many minutes of virtual time")
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
			var told endings
			inBubble(t, test.n, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
				begin := time.Now()
				l := v.hold(t, c, "k", auto(test.ttl, test.maxHold)...)
				for step := test.maxHold / 100; time.Since(begin)+step < test.maxHold; {
					time.Sleep(step)
					heldEverywhere(t, v, l)
					require.False(t, l.Until().After(begin.Add(test.maxHold)),
						"Until is beyond maxHold")
				}
				<-l.Done()
				require.Equal(t, test.maxHold, time.Since(begin))
				over(t, l, lockpipe.ErrExpired)
				require.NotErrorIs(t, l.Err(), lockpipe.ErrLost)
				require.ErrorContains(t, context.Cause(l.Context()), "maxHold")
				time.Sleep(test.within)
				v.nothingLeft(t)
				require.Equal(t, test.extended, c.Stats().Extended > 0)
				require.Equal(t, []ending{{l, l.Err(), begin.Add(test.maxHold)}}, told.all())
			}, onLost(told.tell))
		})
	}
}

// The goal: a maxHold that makes no sense is refused by every call before anything is sent, and the
// least that does is taken.
func TestAutoExtend_AMaxHoldThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		for _, maxHold := range []time.Duration{
			0, -1, -time.Hour, math.MinInt64, 1,
			10*time.Millisecond - 1,
		} {
			for call, acquire := range acquiring {
				err := acquire(t.Context(), c, []string{"k"}, lockpipe.WithMaxAttempts(1),
					lockpipe.WithAutoExtend(maxHold))
				require.ErrorIs(t, err, lockpipe.ErrInvalid, "%s, %v", call, maxHold)
				require.ErrorContains(t, err, "WithAutoExtend("+maxHold.String()+")", call)
				require.ErrorContains(t, err, "10ms", call)
			}
		}
		synctest.Wait()
		require.Zero(t, c.Stats().Operations)
		require.Zero(t, v.executedOnAll("SET")+v.executedOnAll("EVALSHA"))
		for _, maxHold := range []time.Duration{10 * time.Millisecond, math.MaxInt64} {
			l := v.hold(t, c, "k", auto(autoTTL, maxHold)...)
			require.NoError(t, l.Release(t.Context()))
			synctest.Wait()
		}
	})
}

// The goal: an automatic extension that fails or hangs on a majority is tried again. It keeps the
// lease if the nodes recover before the last confirmed time is over.
func TestAutoExtend_AFailedExtensionIsRetriedInTime(t *testing.T) {
	t.Parallel()
	faults := map[string]func(v *fakeNodes, i int){
		"OOM":     func(v *fakeNodes, i int) { v.fail(i, outOfMemory) },
		"BUSY":    func(v *fakeNodes, i int) { v.fail(i, "BUSY Redis is busy running a script.") },
		"unknown": func(v *fakeNodes, i int) { v.fail(i, "ERR whatever") },
		"silent":  func(v *fakeNodes, i int) { v.silence(i) },
	}
	for name, strike := range faults {
		for n, left := range map[int]time.Duration{3: 50 * time.Millisecond, 5: time.Second} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var told endings
				inBubble(t, n, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
					l := v.hold(t, c, "k", auto(autoTTL, time.Hour)...)
					for range 5 {
						synctest.Wait()
						until := l.Until()
						for i := range n/2 + 1 {
							strike(v, i)
						}
						time.Sleep(time.Until(until) - left)
						require.Equal(t, until, l.Until(), "nothing was confirmed")
						v.heal(span(0, n)...)
						v.speak(span(0, n)...)
						time.Sleep(left)
						lasting(t, l)
					}
					time.Sleep(autoTTL)
					heldEverywhere(t, v, l)
					require.NoError(t, l.Release(t.Context()))
					v.nothingLeft(t)
					require.Empty(t, told.all())
				}, onLost(told.tell), timeout(100*time.Millisecond))
			})
		}
	}
}

// The goal: if the extensions of a majority hang, the holder is notified of the loss exactly at the
// end of the last confirmed validity, and once. When the nodes continue, however late, they keep
// nothing of what they were sent.
func TestAutoExtend_AHungExtensionIsALossAtTheLastConfirmedDeadline(t *testing.T) {
	skipIfShort(t, "extensions that hang")
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
			var told endings
			inBubble(t, test.n, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
				l := v.hold(t, c, "k", auto(autoTTL, time.Hour)...)
				time.Sleep(test.confirmed)
				synctest.Wait()
				lasting(t, l)
				deadline := l.Until()
				v.silence(span(0, test.silent)...)
				<-l.Done()
				require.Equal(t, deadline, time.Now())
				over(t, l, lockpipe.ErrLost)
				require.NotErrorIs(t, l.Err(), lockpipe.ErrExpired)
				require.Positive(t, v.hanging(0), "the extension hangs")
				synctest.Wait()
				require.Equal(t, []ending{{l, l.Err(), deadline}}, told.all())
				time.Sleep(test.later)
				v.speak(span(0, test.silent)...)
				time.Sleep(time.Second) // where a connection was given up it comes back first
				v.nothingLeft(t)
				time.Sleep(time.Minute)
				v.nothingLeft(t)
				require.Len(t, told.all(), 1)
				require.Equal(t, uint64(1), c.Stats().Lost)
			}, onLost(told.tell), timeout(200*time.Millisecond))
		})
	}
}

// failing lets nodes answer with this error.
func failing(message string) func(v *fakeNodes, which ...int) {
	return func(v *fakeNodes, which ...int) {
		for _, i := range which {
			v.fail(i, message)
		}
	}
}

// The goal: a minority that stays silent, or always fails, ends no lease. It gets the release when
// it continues.
func TestAutoExtend_ASilentMinorityCostsNoLease(t *testing.T) {
	skipIfShort(t, "long holds while a minority is silent or fails")
	t.Parallel()
	for n, bad := range map[int]int{3: 1, 4: 1, 5: 2} {
		for name, strike := range map[string]func(v *fakeNodes, which ...int){
			"silent":  (*fakeNodes).silence,
			"failing": failing(readOnly),
			"busy":    failing("BUSY Redis is busy running a script."),
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var told endings
				inBubble(t, n, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
					l := v.hold(t, c, "k", auto(autoTTL, 24*time.Hour)...)
					strike(v, span(0, bad)...)
					for range 7 { // longer than MaxTTL
						time.Sleep(autoTTL)
						lasting(t, l)
						for i := bad; i < n; i++ {
							require.Equal(t, l.Token(), v.get(i, "k"))
						}
					}
					require.NoError(t, l.Release(t.Context()))
					synctest.Wait() // the minority was sent it
					v.heal(span(0, bad)...)
					v.speak(span(0, bad)...)
					time.Sleep(time.Second)
					v.nothingLeft(t)
					require.Empty(t, told.all())
					require.Zero(t, c.Stats().Lost)
				}, onLost(told.tell), timeout(200*time.Millisecond))
			})
		}
	}
}

// The goal: a lease with a huge maxHold is extended as often as any other, and lasts, whatever its
// TTL.
func TestAutoExtend_AHugeMaxHoldExtendsAsUsual(t *testing.T) {
	t.Parallel()
	for _, d := range huge {
		t.Run(d.String(), func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
				forever := lockpipe.WithAutoExtend(d)
				short := v.hold(t, c, "short", lockpipe.WithTTL(time.Second), forever)
				long := v.hold(t, v.client(t, longest), "long", forever)
				before := v.executed(0, "EVALSHA")
				time.Sleep(30 * time.Second)
				lasting(t, short)
				lasting(t, long)
				require.LessOrEqual(t, time.Until(short.Until()), time.Second)
				// One after each third to two thirds of the second.
				require.InDelta(t, 65, v.executed(0, "EVALSHA")-before, 25)
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
				var told endings
				inBubble(t, n, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
					l := v.hold(t, c, "k", auto(autoTTL, time.Hour)...)
					time.Sleep(25 * time.Second)
					synctest.Wait()
					until := l.Until()
					for i := range n/2 + 1 {
						v.del(i, "k")
						if owner != "" {
							v.set(i, "k", owner)
						}
					}
					<-l.Done()
					require.True(t, time.Now().Before(until), "it ran out")
					over(t, l, lockpipe.ErrLost)
					require.ErrorContains(t, l.Err(), "do not hold it any more")
					synctest.Wait()
					require.Equal(t, []ending{{l, l.Err(), time.Now()}}, told.all())
					require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrLost)
					time.Sleep(5 * time.Second)
					for i := range n {
						want := ""
						if i <= n/2 {
							want = owner
						}
						require.Equal(t, want, v.get(i, "k"), "node %d", i)
					}
					require.Len(t, told.all(), 1)
				}, onLost(told.tell))
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
			var told endings
			inBubble(t, n, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
				l := v.hold(t, c, "k", auto(autoTTL, time.Hour)...)
				for range 3 {
					for i := range n / 2 {
						v.del(i, "k")
					}
					time.Sleep(autoTTL)
					heldEverywhere(t, v, l)
				}
				require.NoError(t, l.Release(t.Context()))
				v.nothingLeft(t)
				require.Empty(t, told.all())
			}, onLost(told.tell))
		})
	}
}
