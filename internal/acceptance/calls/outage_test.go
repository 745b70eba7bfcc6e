package calls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/outage"
	"github.com/stretchr/testify/require"
)

// waiters starts n calls one after another, each for a key of its own. It gives their outcomes.
func waiters(t *testing.T, n int, acquire acquireFunc) <-chan kit.Outcome {
	t.Helper()
	ended := make(chan kit.Outcome, n)
	for i := range n {
		go func() {
			l, err := acquire(t.Context(), []string{"k" + strconv.Itoa(i)})
			ended <- kit.OutcomeNow(l, err)
		}()
		time.Sleep(time.Microsecond)
	}
	return ended
}

type acquireFunc = func(context.Context, []string, ...lockpipe.Option) (*lockpipe.Lease, error)

// bothKinds runs a test with calls that wait in a goroutine, and with those that do not.
func bothKinds(t *testing.T, test func(t *testing.T, of func(c *lockpipe.Client) acquireFunc)) {
	t.Helper()
	t.Run("AcquireAll", func(t *testing.T) {
		test(t, func(c *lockpipe.Client) acquireFunc { return c.AcquireAll })
	})
	t.Run("AcquireAsync", func(t *testing.T) {
		test(t, kit.WaitForAsync)
	})
}

// allGranted wants all n calls to succeed, and releases what they got. It returns when the last one
// succeeded.
func allGranted(t *testing.T, n int, ended <-chan kit.Outcome) (last time.Time) {
	t.Helper()
	for range n {
		o := kit.Receive(t, ended, "a call still waits")
		require.NoError(t, o.Err)
		kit.Release(t, o.Lease)
		last = o.At
	}
	return last
}

// The goal: while all nodes are down, each waiting call makes one attempt and no more. When
// the nodes are back, all calls are granted, in about the order of arrival.
func TestOutage_WaitingCallsMakeNoAttempts(t *testing.T) {
	kit.SkipIfShort(t, "more calls in an outage than may try at once")
	t.Parallel()
	const calls = 2*kit.AtOnce + 1
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		kit.InOutage(t, 1, func(t *testing.T, k *kit.Cable, c *lockpipe.Client) {
			var mu sync.Mutex
			var order []int // the numbers of the calls, as the node sees them
			k.V.Watch(func(_ int, command string, args []string) {
				if command != "SET" || !strings.HasPrefix(args[0], kit.Prefix+"k") {
					return
				}
				n, err := strconv.Atoi(strings.TrimPrefix(args[0], kit.Prefix+"k"))
				mu.Lock()
				defer mu.Unlock()
				if order = append(order, n); err != nil {
					t.Error(err)
				}
			})
			before := c.Stats().Attempts
			ended := waiters(t, calls, of(c))
			time.Sleep(10 * time.Second)
			require.Equal(t, before+calls, c.Stats().Attempts)
			require.Empty(t, ended)
			k.Reconnected(t, c)
			back := time.Now()
			last := allGranted(t, calls, ended)
			require.Less(t, last.Sub(back), outage.MaxAwakeTime, "a round ended before")
			require.Equal(t, before+2*calls, c.Stats().Attempts)
			require.Len(t, order, calls)
			for place, n := range order {
				require.Less(t, n, place+kit.AtOnce, "this call was woken too early")
			}
			k.V.NothingLeft(t)
		})
	})
}

// The goal: when the nodes are back, so many calls try at once and no more. Calls that hang keep
// the next ones from that for a short time only.
func TestOutage_SoManyCallsAreWokenAtOnce(t *testing.T) {
	kit.SkipIfShort(t, "more calls in an outage than may try at once")
	t.Parallel()
	const calls = 2*kit.AtOnce + 1
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		kit.InOutage(t, 1, func(t *testing.T, k *kit.Cable, c *lockpipe.Client) {
			ended := waiters(t, calls, of(c))
			time.Sleep(time.Second)
			k.V.Silence(0)
			before := c.Stats().Attempts
			k.Reconnected(t, c)
			require.Equal(t, before+kit.AtOnce, c.Stats().Attempts)
			time.Sleep(outage.MaxAwakeTime)
			synctest.Wait()
			require.Equal(t, before+2*kit.AtOnce, c.Stats().Attempts)
			k.V.Speak(0)
			allGranted(t, calls, ended)
			require.Equal(t, before+calls, c.Stats().Attempts)
			k.V.NothingLeft(t)
		})
	})
}

// The goal: a call that finds its key held after an outage makes room for the next one at once.
func TestOutage_ACallThatIsRefusedMakesRoom(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		kit.InOutage(t, 1, func(t *testing.T, k *kit.Cable, c *lockpipe.Client) {
			for i := range kit.AtOnce {
				k.V.Set(0, "k"+strconv.Itoa(i), "another's")
			}
			ended := waiters(t, kit.AtOnce+1, of(c))
			time.Sleep(time.Second)
			k.Reconnected(t, c)
			synctest.Wait()
			require.Len(t, ended, 1, "its key is free")
			kit.Release(t, (<-ended).Lease)
			for i := range kit.AtOnce {
				k.V.Del(0, "k"+strconv.Itoa(i))
			}
			allGranted(t, kit.AtOnce, ended)
			k.V.NothingLeft(t)
		})
	})
}

// The goal: when the nodes go away again, only the calls that were awake notice. The others stay
// where they are, and all are granted in the end.
func TestOutage_TheRestStaysParkedInASecondOutage(t *testing.T) {
	t.Parallel()
	const calls = kit.AtOnce + 50
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		kit.InOutage(t, 1, func(t *testing.T, k *kit.Cable, c *lockpipe.Client) {
			ended := waiters(t, calls, of(c))
			time.Sleep(time.Second)
			before := c.Stats().Attempts
			k.V.Silence(0)
			k.Reconnected(t, c)
			k.Unplug(t, c)
			time.Sleep(time.Minute)
			require.Equal(t, before+kit.AtOnce, c.Stats().Attempts)
			require.Empty(t, ended)
			k.V.Speak(0)
			k.Reconnected(t, c)
			allGranted(t, calls, ended)
			time.Sleep(time.Minute)
			k.V.NothingLeft(t)
		})
	})
}

// The goal: the end of ctx and Close end a parked call at once, with the reason and their error.
func TestOutage_ParkedCallsEndAtOnce(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		kit.InOutage(t, 3, func(t *testing.T, k *kit.Cable, c *lockpipe.Client) {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			short := kit.Later(func() kit.Outcome {
				l, err := of(c)(ctx, []string{"k"})
				return kit.OutcomeNow(l, err)
			})
			synctest.Wait()
			behind, other := queueWith(t, of(c), "k"), queueWith(t, of(c), "other")
			o := <-short
			require.Equal(t, time.Minute, o.At.Sub(start))
			require.ErrorIs(t, o.Err, context.DeadlineExceeded)
			require.ErrorIs(t, o.Err, lockpipe.ErrNoQuorum)
			require.ErrorContains(t, o.Err, `waited 1m0s for "k"`)
			time.Sleep(time.Minute) // the call behind it has tried once, and is parked
			start = time.Now()
			require.NoError(t, c.Close(t.Context()))
			for _, ended := range []<-chan kit.Outcome{behind, other} {
				o := <-ended
				require.Equal(t, start, o.At)
				require.ErrorIs(t, o.Err, lockpipe.ErrClosed)
				require.ErrorIs(t, o.Err, lockpipe.ErrNoQuorum)
			}
		})
	})
}

// queueWith starts a call that waits for a key, and returns when it waits.
func queueWith(t *testing.T, acquire acquireFunc, key string) <-chan kit.Outcome {
	t.Helper()
	ended := kit.Later(func() kit.Outcome {
		l, err := acquire(t.Context(), []string{key})
		return kit.OutcomeNow(l, err)
	})
	synctest.Wait()
	return ended
}

// The goal: of the calls that wait for one key, the first one alone tries, in an outage too.
func TestOutage_OnlyTheFirstOfAQueueTries(t *testing.T) {
	t.Parallel()
	const calls = 100
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		kit.InOutage(t, 3, func(t *testing.T, k *kit.Cable, c *lockpipe.Client) {
			before := c.Stats().Attempts
			var all []<-chan kit.Outcome
			for range calls {
				all = append(all, queueWith(t, of(c), "k"))
			}
			time.Sleep(time.Minute)
			require.Equal(t, before+1, c.Stats().Attempts)
			k.Reconnected(t, c)
			for _, next := range all {
				kit.Release(t, kit.Granted(t, next))
			}
			k.V.NothingLeft(t)
		})
	})
}

// The goal: a call that was parked waits for its retry delay between two attempts, however often
// the nodes come and go.
func TestOutage_TheRetryDelayHoldsBetweenOutages(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		kit.InOutage(t, 3, func(t *testing.T, k *kit.Cable, c *lockpipe.Client) {
			const delay = time.Minute
			start, before := time.Now(), c.Stats().Attempts
			ended := kit.Later(func() error {
				l, err := of(c)(t.Context(), []string{"k"}, lockpipe.WithRetryDelay(delay, delay))
				return errors.Join(err, l.Release(t.Context()))
			})
			for range 10 {
				k.Reconnected(t, c)
				k.Unplug(t, c)
			}
			require.Less(t, time.Since(start), delay)
			require.Equal(t, before+1, c.Stats().Attempts)
			k.Reconnected(t, c)
			require.NoError(t, <-ended)
			require.Equal(t, delay, time.Since(start))
		})
	})
}

// The goal: wherever a change of the nodes' states meets the attempts of calls, no call sleeps
// through it: all are granted soon after the nodes are back.
func TestOutage_NobodySleepsThroughTheEnd(t *testing.T) {
	kit.SkipIfShort(t, "outages that begin and end at random")
	t.Parallel()
	const calls = 300
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			kit.InOutage(t, 3, func(t *testing.T, k *kit.Cable, c *lockpipe.Client) {
				r := rand.New(rand.NewPCG(seed, 0))
				var all []<-chan kit.Outcome
				for i := range calls {
					acquire := []acquireFunc{c.AcquireAll, kit.WaitForAsync(c)}[i%2]
					keys := []string{strconv.Itoa(r.IntN(calls)), "x" + strconv.Itoa(r.IntN(9))}
					all = append(all, kit.Later(func() kit.Outcome {
						l, err := acquire(t.Context(), keys[:1+i/2%2])
						_ = l.Release(t.Context()) // it may have to wait for the nodes
						return kit.OutcomeNow(l, err)
					}))
					switch r.IntN(20) {
					case 0:
						k.Plug()
					case 1:
						k.Unplug(t, c)
					default:
						time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
					}
				}
				k.Reconnected(t, c)
				back := time.Now()
				for _, ended := range slices.Backward(all) {
					o := kit.Receive(t, ended, "a call still waits")
					require.NoError(t, o.Err)
					require.Less(t, o.At.Sub(back), 10*time.Second)
				}
				time.Sleep(time.Minute) // also what was kept for nodes that were down
				k.V.NothingLeft(t)
			})
		})
	}
}

// The goal: while no quorum can be reached and calls wait, the log of the client has a reminder
// each minute with their number. It has none after they were granted.
func TestOutage_TheLogRemindsOfCallsThatWait(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		synctest.Test(t, func(t *testing.T) {
			var log kit.LockedBuffer
			k := &kit.Cable{V: kit.NewFakeNodes(t, 3)}
			c := k.V.Client(t, func(cfg *lockpipe.Config) {
				cfg.Dial, cfg.Logger = k.Dial, slog.New(slog.NewTextHandler(&log, nil))
			})
			k.Unplug(t, c)
			ended := waiters(t, 7, of(c))
			time.Sleep(3*time.Minute + time.Second)
			synctest.Wait()
			const reminder = "no quorum of the nodes can grant, and calls wait"
			require.Equal(t, 3, strings.Count(log.String(), reminder))
			require.Contains(t, log.String(), "calls=7 longest=3m0s")
			k.Reconnected(t, c)
			allGranted(t, 7, ended)
			time.Sleep(10 * time.Minute)
			require.Equal(t, 3, strings.Count(log.String(), reminder))
		})
	})
}

// The goal: while a majority answers acquires with errors, one waiting call tries each second, and
// the others wait. When the nodes have memory again, all are granted within about a second.
func TestOutage_CallsWaitWhileTheNodesFail(t *testing.T) {
	t.Parallel()
	const calls = 40
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			v.Fail(0, kit.OutOfMemory)
			v.Fail(2, kit.OutOfMemory)
			ended := waiters(t, calls, of(c))
			time.Sleep(3 * time.Second)
			before := c.Stats().Attempts
			time.Sleep(10 * time.Second)
			require.InDelta(t, 10, c.Stats().Attempts-before, 2)
			require.Empty(t, ended)
			v.Heal(0, 2)
			back := time.Now()
			last := allGranted(t, calls, ended)
			require.Less(t, last.Sub(back), 2*outage.ScoutInterval)
			v.NothingLeft(t)
		})
	})
}
