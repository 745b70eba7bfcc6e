package lockpipe_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/fence"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// companion is what stands beside key.
func companion(key string) string { return "lockpipe:fence:" + key }

// shifted is a further client, whose wall clock is off by d.
func (v *virtual) shifted(t *testing.T, d time.Duration) *lockpipe.Client {
	t.Helper()
	c := v.client(t)
	lockpipe.ShiftClock(c, d)
	return c
}

// fenced takes key with fencing, has it checked, and gives it back everywhere.
func fenced(t *testing.T, c *lockpipe.Client, seen *fence.Checker, keys ...string) int64 {
	t.Helper()
	l, err := c.TryAcquireAll(t.Context(), keys, lockpipe.WithFencing())
	require.NoError(t, err)
	return passed(t, seen, l)
}

// passed has the fence of a lease checked for all of its keys, and releases it.
func passed(t *testing.T, seen *fence.Checker, l *lockpipe.Lease) int64 {
	t.Helper()
	for _, k := range l.Keys() {
		require.True(t, seen.Allow(k, l.Fence()), "%d is not above the fences before it of %s",
			l.Fence(), k)
	}
	release(t, l)
	synctest.Wait()
	return l.Fence()
}

// onlyCompanions wants nothing else left on the nodes.
func (v *virtual) onlyCompanions(t *testing.T) {
	t.Helper()
	synctest.Wait()
	for i := range v.nodes {
		for _, k := range v.keys(i) {
			require.Contains(t, k, prefix+companion(""), "node %d", i)
		}
	}
}

// The goal: over clients whose clocks differ by minutes, and all ways to take keys that overlap,
// the fences of each key rise.
func TestFencesRiseWhateverTheClocksSay(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		clients := []*lockpipe.Client{
			c, v.shifted(t, -7*time.Minute), v.shifted(t, 3*time.Minute),
			v.shifted(t, -time.Millisecond),
		}
		rng := rand.New(rand.NewPCG(1, 2))
		var seen fence.Checker
		for range 400 {
			c := clients[rng.IntN(len(clients))]
			var keys []string
			for _, k := range rng.Perm(5)[:1+rng.IntN(3)] {
				keys = append(keys, "k"+strconv.Itoa(k))
			}
			switch rng.IntN(4) {
			case 0:
				fenced(t, c, &seen, keys...)
			case 1:
				l, err := c.AcquireAll(t.Context(), keys, lockpipe.WithFencing())
				require.NoError(t, err)
				passed(t, &seen, l)
			case 2:
				l := granted(t, async(t.Context(), t, c, keys, lockpipe.WithFencing()))
				passed(t, &seen, l)
			case 3:
				for _, r := range c.TryAcquireEach(t.Context(), keys, lockpipe.WithFencing()) {
					require.NoError(t, r.Err)
					passed(t, &seen, r.Lease)
				}
			}
			time.Sleep(time.Duration(rng.IntN(3)) * time.Microsecond)
		}
		v.onlyCompanions(t)
	})
}

// The goal: Fence is 0 without fencing, and stays readable when the lease is over.
func TestFenceIsReadableAfterTheEnd(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		l := v.hold(t, c, "k", lockpipe.WithFencing(), lockpipe.WithTTL(time.Second),
			lockpipe.WithAutoExtend(10*time.Second))
		f := l.Fence()
		require.Equal(t, time.Now().UnixMicro(), f)
		for i := range v.nodes {
			require.Equal(t, strconv.FormatInt(f, 10), v.get(i, companion("k")))
			require.Equal(t, 24*time.Hour, v.ttl(i, companion("k")))
		}
		time.Sleep(5 * time.Second)
		lasting(t, l)
		require.Equal(t, f, l.Fence(), "extensions keep it")
		<-l.Done()
		require.Equal(t, f, l.Fence())
		synctest.Wait() // the keys are deleted once the holder has been told
		plain := v.hold(t, c, "k")
		require.Zero(t, plain.Fence())
		release(t, plain)
		require.Zero(t, (*lockpipe.Lease)(nil).Fence())
		v.onlyCompanions(t)
	})
}

// The goal: whoever's clock is behind needs one attempt more, whatever the call, also if it may
// make only one; and none for the next lease.
func TestAClockThatIsBehindCatchesUpInOneAttempt(t *testing.T) {
	calls := map[string]func(t *testing.T, c *lockpipe.Client) *lockpipe.Lease{
		"try": func(t *testing.T, c *lockpipe.Client) *lockpipe.Lease {
			return try(t, c, "k",
				lockpipe.WithFencing())
		},
		"wait": func(t *testing.T, c *lockpipe.Client) *lockpipe.Lease {
			return take(t, c, "k", lockpipe.WithFencing(), lockpipe.WithMaxAttempts(1))
		},
		"async": func(t *testing.T, c *lockpipe.Client) *lockpipe.Lease {
			return granted(t, async(t.Context(), t, c, []string{"k"}, lockpipe.WithFencing()))
		},
		"each": func(t *testing.T, c *lockpipe.Client) *lockpipe.Lease {
			results := c.TryAcquireEach(t.Context(), []string{"other", "k", "k"},
				lockpipe.WithFencing())
			for _, r := range results {
				require.NoError(t, r.Err)
			}
			require.Same(t, results[1].Lease, results[2].Lease)
			release(t, results[0].Lease)
			return results[1].Lease
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, v *virtual, ahead *lockpipe.Client) {
				c := v.shifted(t, -5*time.Minute)
				var seen fence.Checker
				fenced(t, ahead, &seen, "k")
				began, before := time.Now(), c.Stats().Attempts
				extra := 0
				if name == "each" {
					extra = 1
				}
				passed(t, &seen, call(t, c))
				require.Equal(t, before+2+uint64(extra), c.Stats().Attempts)
				passed(t, &seen, call(t, c))
				require.Equal(t, before+3+2*uint64(extra), c.Stats().Attempts)
				require.Zero(t, time.Since(began), "no pause")
				v.onlyCompanions(t)
			})
		})
	}
}

// The goal: where a quorum has seen fences that nobody can top, the call fails after one attempt,
// not as held, and leaves nothing.
func TestAFenceThatCannotBeToppedIsNotHeld(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		for i := range 3 {
			v.set(t, i, companion("k"), strconv.Itoa(1<<53-1))
		}
		before := c.Stats().Attempts
		_, err := c.TryAcquire(t.Context(), "k", lockpipe.WithFencing())
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		require.NotErrorIs(t, err, lockpipe.ErrHeld)
		require.ErrorContains(t, err, "a fence of 9007199254740991 was granted before")
		require.ErrorContains(t, err, "until its fence key is deleted")
		require.Equal(t, before+1, c.Stats().Attempts)
		v.onlyCompanions(t)

		_, err = c.Acquire(t.Context(), "k", lockpipe.WithFencing(), lockpipe.WithMaxAttempts(3),
			lockpipe.WithRetryDelay(time.Second, time.Second))
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		v.onlyCompanions(t)
	})
}

// The goal: whatever stands in a companion, and however high, matters for its own key alone: all
// others are taken at the first try, with fences of the time, and handed over; and its own is taken
// again where the number can be topped, and refused else.
func TestAHighCompanionIsOfItsKeyAlone(t *testing.T) {
	for text, ok := range map[string]bool{
		"9007199254740991": false, "99999999999999999": false,
		"9007199254740989": true, "4102444800000000": true,
	} {
		inBubble(t, 5, func(t *testing.T, v *virtual, c *lockpipe.Client) {
			var seen fence.Checker
			for i := range 3 {
				v.set(t, i, companion("bad"), text)
			}
			for range 2 {
				before := c.Stats().Attempts
				results := c.TryAcquireEach(t.Context(), []string{"bad", "good"},
					lockpipe.WithFencing())
				require.NoError(t, results[1].Err)
				require.Less(t, passed(t, &seen, results[1].Lease), time.Now().UnixMicro()+10)
				if bad := results[0]; ok {
					require.NoError(t, bad.Err)
					passed(t, &seen, bad.Lease)
					require.Equal(t, before+3, c.Stats().Attempts, "the price of this key")
				} else {
					require.ErrorIs(t, bad.Err, lockpipe.ErrNoQuorum)
					require.ErrorContains(t, bad.Err, "until its fence key is deleted")
					require.Equal(t, before+2, c.Stats().Attempts)
				}
			}
			l := try(t, c, "handed", lockpipe.WithFencing())
			var all []<-chan outcome
			for range 5 {
				all = append(all, queue(t, c, "handed", lockpipe.WithFencing()))
			}
			for _, next := range all {
				passed(t, &seen, l)
				l = granted(t, next)
			}
			passed(t, &seen, l)
			require.Equal(t, uint64(4), c.Stats().Handovers)
			v.onlyCompanions(t)
		})
	}
}

// The goal: a node of a minority that has the highest fence there is does not drag others along
// that are only ahead, whoever answers first.
func TestOneNodeAtTheEndDoesNotDragItsKeyThere(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		ahead := time.Now().Add(time.Minute).UnixMicro()
		v.set(t, 0, companion("k"), "9007199254740991")
		for i := 1; i < 5; i++ {
			v.set(t, i, companion("k"), strconv.FormatInt(ahead, 10))
		}
		for range 10 {
			l := try(t, c, "k", lockpipe.WithFencing())
			require.Greater(t, l.Fence(), ahead)
			require.Less(t, l.Fence(), ahead+100)
			release(t, l)
			v.onlyCompanions(t)
		}
	})
}

// The goal: a process that is paused after it has taken its number comes with a lower one than
// those that were granted meanwhile. It gets no lease with it, also where all nodes have forgotten
// these: the time of a lease runs since before its number was taken.
func TestAPauseBehindTheClockGivesNoOldFence(t *testing.T) {
	calls := map[string]func(ctx context.Context, c *lockpipe.Client) (*lockpipe.Lease, error){
		"try": func(ctx context.Context, c *lockpipe.Client) (*lockpipe.Lease, error) {
			return c.TryAcquire(ctx, "k", lockpipe.WithFencing())
		},
		"each": func(ctx context.Context, c *lockpipe.Client) (*lockpipe.Lease, error) {
			r := c.TryAcquireEach(ctx, []string{"k"}, lockpipe.WithFencing())[0]
			return r.Lease, r.Err
		},
		"wait": func(ctx context.Context, c *lockpipe.Client) (*lockpipe.Lease, error) {
			return c.Acquire(ctx, "k", lockpipe.WithFencing())
		},
		"async": func(ctx context.Context, c *lockpipe.Client) (*lockpipe.Lease, error) {
			return waitForAsync(c)(ctx, []string{"k"}, lockpipe.WithFencing())
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
				paused := v.client(t)
				var once atomic.Bool
				lockpipe.BehindClock(paused, func() {
					if !once.Swap(true) {
						time.Sleep(3 * time.Minute)
					}
				})
				got := later(func() outcome {
					l, err := call(t.Context(), paused)
					return outcome{lease: l, err: err}
				})
				time.Sleep(time.Second)
				l := v.hold(t, c, "k", lockpipe.WithFencing())
				release(t, l)
				synctest.Wait()
				for i := range v.nodes {
					v.del(i, companion("k"))
				}
				o := <-got
				if o.err != nil {
					require.ErrorIs(t, o.err, lockpipe.ErrNoQuorum)
					return
				}
				require.Greater(t, o.lease.Fence(), l.Fence())
				release(t, o.lease)
			})
		})
	}
}

// The goal: where what was granted with too low a fence has to be deleted first, and nodes hang,
// TryAcquireEach waits for that once for all of its keys, and makes one attempt more.
func TestManyStaleKeysWaitTogether(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		keys, others := keysOf("k", 100), keysOf("other", 100)
		for _, k := range keys {
			for i := range 2 {
				v.set(t, i, companion(k), strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(),
					10))
			}
		}
		v.fail(2, readOnly)
		v.silence(3, 4)
		timed := func(keys []string, opts ...lockpipe.Option) time.Duration {
			began := time.Now()
			for _, r := range c.TryAcquireEach(t.Context(), keys, opts...) {
				require.ErrorIs(t, r.Err, lockpipe.ErrNoQuorum)
			}
			return time.Since(began)
		}
		before := c.Stats().Attempts
		require.LessOrEqual(t, timed(keys, lockpipe.WithFencing()), timed(others)+
			50*time.Millisecond)
		require.LessOrEqual(t, c.Stats().Attempts, before+300)
	}, timeout(50*time.Millisecond))
}

// The goal: where others with a faster clock take the keys again and again, a call that has to wait
// for its own release does so once, and one that has not tries again at once three times.
func TestACallThatStaysBehindGivesUp(t *testing.T) {
	for stale, attempts := range map[int]uint64{1: 2, 2: 4} {
		inBubble(t, 2, func(t *testing.T, v *virtual, c *lockpipe.Client) {
			higher := time.Now().Add(time.Hour).UnixMicro()
			lockpipe.BehindClock(c, func() {
				higher += 10
				for i := range stale {
					v.set(t, i, companion("k"), strconv.FormatInt(higher, 10))
					v.set(t, i, companion("other"), strconv.FormatInt(higher, 10))
				}
			})
			_, err := c.TryAcquire(t.Context(), "k", lockpipe.WithFencing())
			require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
			require.Equal(t, attempts, c.Stats().Attempts)
			err = c.TryAcquireEach(t.Context(), []string{"other"}, lockpipe.WithFencing())[0].Err
			require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
			require.Equal(t, 2*attempts, c.Stats().Attempts)
			v.onlyCompanions(t)
		})
	}
}

// The goal: a fence that one node has seen does not drag a waiting call's along that another's
// lease is in the way of.
func TestAStaleMinorityDoesNotDragWhoWaits(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		held := v.hold(t, v.client(t), "k", lockpipe.WithFencing())
		v.del(0, "k")
		v.set(t, 0, companion("k"), "4102444800000000")
		waiting := queue(t, c, "k", lockpipe.WithFencing())
		time.Sleep(10 * time.Second)
		release(t, held)
		time.Sleep(10 * time.Second)
		l := granted(t, waiting)
		require.Less(t, l.Fence(), time.Now().UnixMicro())
		release(t, l)
		v.onlyCompanions(t)
	})
}

// The goal: TryAcquireEach takes keys that only the release of its own first attempt is in the way
// of, too, each with a fence of its own.
func TestManyKeysOfWhichHalfTheNodesAreStale(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		keys := keysOf("k", 100)
		ahead := time.Now().Add(time.Hour).UnixMicro()
		for i, k := range keys {
			v.set(t, i%2, companion(k), strconv.FormatInt(ahead+int64(1000*i), 10))
		}
		for i, r := range c.TryAcquireEach(t.Context(), keys, lockpipe.WithFencing()) {
			require.NoError(t, r.Err)
			require.Equal(t, ahead+int64(1000*i)+1, r.Lease.Fence())
			release(t, r.Lease)
		}
		require.Equal(t, uint64(200), c.Stats().Attempts)
		v.onlyCompanions(t)
	})
}

// The goal: nodes of a minority that have seen more neither keep anybody from a lease nor cost an
// attempt.
func TestAStaleMinorityDoesNotMatter(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		for i := range 2 {
			v.set(t, i, companion("k"), strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(),
				10))
		}
		l := try(t, c, "k", lockpipe.WithFencing())
		require.Equal(t, time.Now().UnixMicro(), l.Fence())
		require.Equal(t, uint64(1), c.Stats().Attempts)
		synctest.Wait()
		require.Equal(t, []string{"", "", l.Token()}, []string{
			v.get(0, "k"), v.get(1, "k"),
			v.get(2, "k"),
		})
		release(t, l)
		v.onlyCompanions(t)
	})
}

// The goal: with an even number of nodes those that are stale are no quorum, so what the others
// granted is deleted first, and is not in the way of the next attempt.
func TestACatchUpWaitsForWhatItLeftBehind(t *testing.T) {
	for _, n := range []int{2, 4} {
		inBubble(t, n, func(t *testing.T, v *virtual, c *lockpipe.Client) {
			for i := range n / 2 {
				v.set(t, i, companion("k:0"),
					strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10))
			}
			v.silence(span(n/2, n)...) // what they grant late would be in the way
			taken := later(func() outcome {
				// Enough to leave beside a flush under way.
				l, err := c.TryAcquireAll(t.Context(), keysOf("k", 100), lockpipe.WithFencing())
				return outcome{lease: l, err: err}
			})
			synctest.Wait()
			v.speak(span(n/2, n)...)
			l := granted(t, taken)
			require.Greater(t, l.Fence(), time.Now().Add(time.Hour).UnixMicro())
			require.Equal(t, uint64(2), c.Stats().Attempts)
			release(t, l)
			v.onlyCompanions(t)
		})
	}
}

// The goal: where some nodes may still grant what was given up, the next attempt does not leave
// before that is deleted: it would find its own caller in the way, because the release on a node
// waits for the answer there, and other attempts do not.
func TestACatchUpWaitsForWhatMayStillBeGranted(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		for i := range 2 {
			v.set(t, i, companion("k:0"), strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(),
				10))
		}
		v.fail(2, readOnly)
		v.silence(3, 4)
		taken := later(func() outcome {
			// Enough to leave beside a flush under way.
			l, err := c.TryAcquireAll(t.Context(), keysOf("k", 100), lockpipe.WithFencing())
			return outcome{lease: l, err: err}
		})
		synctest.Wait()
		require.Equal(t, uint64(1), c.Stats().Attempts)
		v.speak(3, 4)
		l := granted(t, taken)
		require.Greater(t, l.Fence(), time.Now().Add(time.Hour).UnixMicro())
		require.Equal(t, uint64(2), c.Stats().Attempts)
		release(t, l)
		v.onlyCompanions(t)
	})
	inBubble(t, 5, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		keys := keysOf("k", 100)
		for _, k := range keys {
			for i := range 2 {
				v.set(t, i, companion(k), strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(),
					10))
			}
		}
		v.fail(2, readOnly)
		v.silence(3, 4)
		taken := later(func() []lockpipe.Result {
			return c.TryAcquireEach(t.Context(), keys,
				lockpipe.WithFencing())
		})
		synctest.Wait()
		require.Equal(t, uint64(100), c.Stats().Attempts)
		v.speak(3, 4)
		for _, r := range <-taken {
			require.NoError(t, r.Err)
			release(t, r.Lease)
		}
		require.Equal(t, uint64(200), c.Stats().Attempts)
		v.onlyCompanions(t)
	})
}

// The goal: what counters on the nodes would get wrong: (5,1,1), then a lease by nodes 0 and 1,
// then one by nodes 1 and 2, which would be 6 and then 3.
func TestFencesRiseWhereCountersWouldNot(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		var seen fence.Checker
		ahead, behind := v.shifted(t, time.Minute), v.shifted(t, -time.Minute)
		v.fail(1, outOfMemory)
		v.fail(2, outOfMemory)
		for range 5 {
			_, err := ahead.TryAcquire(t.Context(), "k", lockpipe.WithFencing())
			require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
			synctest.Wait()
		}
		v.heal(1)
		fenced(t, c, &seen, "k")
		v.heal(2)
		v.fail(0, outOfMemory)
		fenced(t, behind, &seen, "k")
		v.heal(0)
		v.fail(1, outOfMemory)
		fenced(t, behind, &seen, "k")
		fenced(t, c, &seen, "k")
	})
}

// The goal: a minority that forgot its companions does not let a fence go back that all nodes had
// granted.
func TestForgottenCompanions(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		var seen fence.Checker
		behind := v.shifted(t, -10*time.Minute)
		passed(t, &seen, v.hold(t, c, "k", lockpipe.WithFencing()))
		v.del(1, companion("k"))
		v.del(4, companion("k"))
		fenced(t, behind, &seen, "k")
	})
}

// The goal: nodes that an extension gives the keys back have the fence again as well, and one that
// has a higher one keeps it.
func TestARefillBringsTheFenceBack(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		var seen fence.Checker
		behind := v.shifted(t, -10*time.Minute)
		l, err := c.TryAcquireAll(t.Context(), []string{"a", "b"}, lockpipe.WithFencing())
		require.NoError(t, err)
		synctest.Wait()
		for _, i := range []int{0, 1} {
			for _, k := range []string{"a", "b", companion("a"), companion("b")} {
				v.del(i, k)
			}
		}
		high := strconv.FormatInt(l.Fence()+1, 10)
		v.set(t, 4, companion("b"), high)
		require.NoError(t, l.Extend(t.Context(), longTTL))
		synctest.Wait()
		require.Equal(t, high, v.get(4, companion("b")))
		for _, i := range []int{0, 1} {
			require.Equal(t, l.Token(), v.get(i, "b"))
			require.Equal(t, strconv.FormatInt(l.Fence(), 10), v.get(i, companion("b")))
			require.Equal(t, 24*time.Hour, v.ttl(i, companion("a")))
		}
		for _, i := range []int{2, 3} {
			v.del(i, companion("a"))
		}
		passed(t, &seen, l)
		fenced(t, behind, &seen, "a")
	})
}

// The goal: within the process each holder has the next number, without a trip, and who comes after
// them from another process, with whatever clock, is above them all.
func TestAHandOverGivesTheNextFence(t *testing.T) {
	for _, shift := range []time.Duration{
		0, -time.Hour, -time.Microsecond, time.Microsecond,
		5 * time.Microsecond,
	} {
		inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
			var seen fence.Checker
			other := v.shifted(t, shift)
			first := v.hold(t, c, "k", lockpipe.WithFencing())
			var all []<-chan outcome
			for range 9 {
				all = append(all, queue(t, c, "k", lockpipe.WithFencing()))
			}
			passed(t, &seen, first) // nobody waited when it was taken: it is really released
			l := granted(t, all[0])
			require.NotEqual(t, first.Token(), l.Token())
			before, number := c.Stats().Operations, l.Fence()
			for _, next := range all[1:] {
				require.Equal(t, number, l.Fence())
				passed(t, &seen, l)
				l = granted(t, next)
				number++
			}
			require.Equal(t, before, c.Stats().Operations)
			passed(t, &seen, l)
			fenced(t, other, &seen, "k")
			fenced(t, c, &seen, "k")
			v.onlyCompanions(t)
		})
	}
}

// The goal: the numbers last for as many hand-overs as there may be, and not for one more.
func TestHandedFencesRunOut(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		var seen fence.Checker
		l := v.hold(t, c, "k", lockpipe.WithFencing())
		var all []<-chan outcome
		for range 2010 {
			all = append(all, queue(t, c, "k", lockpipe.WithFencing()))
		}
		tokens := map[string]int{}
		for _, next := range all {
			require.True(t, seen.Allow("k", l.Fence()))
			release(t, l)
			o := <-next
			require.NoError(t, o.err)
			l = o.lease
			tokens[l.Token()]++
		}
		require.Len(t, tokens, 3)
		passed(t, &seen, l)
		fenced(t, v.shifted(t, -time.Hour), &seen, "k")
	})
}

// The goal: where the process has run ahead of the wall clock as far as it may, leases are released
// instead of handed over, and in order still.
func TestWithoutNumbersLeftALeaseIsReleased(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, ahead *lockpipe.Client) {
		var seen fence.Checker
		lockpipe.ShiftClock(ahead, time.Hour)
		fenced(t, ahead, &seen, "k")
		c := v.client(t)
		l := try(t, c, "k", lockpipe.WithFencing())
		var all []<-chan outcome
		for range 5 {
			all = append(all, queue(t, c, "k", lockpipe.WithFencing()))
		}
		for _, next := range all {
			token := l.Token()
			passed(t, &seen, l)
			l = granted(t, next)
			require.NotEqual(t, token, l.Token())
		}
		passed(t, &seen, l)
		require.Zero(t, c.Stats().Handovers)
		v.onlyCompanions(t)
	})
}

// The goal: who asked for a fence is not handed a lease for which the nodes know none; who did not
// may be handed one that has, and the next one after it goes on with its numbers.
func TestFencedAndOtherCallersWaitTogether(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		var seen fence.Checker
		plain := v.hold(t, c, "k")
		first, second := queue(t, c, "k", lockpipe.WithFencing()), queue(t, c, "k")
		third, fourth := queue(t, c, "k", lockpipe.WithFencing()), queue(t, c, "k")
		release(t, plain)
		time.Sleep(time.Second)
		l := granted(t, first)
		require.NotEqual(t, plain.Token(), l.Token())
		token := l.Token()
		passed(t, &seen, l)
		l = granted(t, second)
		require.Equal(t, token, l.Token())
		require.Zero(t, l.Fence())
		release(t, l)
		require.Zero(t, l.Fence())
		l = granted(t, third)
		require.Equal(t, token, l.Token())
		passed(t, &seen, l)
		release(t, granted(t, fourth))
		fenced(t, v.shifted(t, -time.Hour), &seen, "k")
		v.onlyCompanions(t)
	})
}

// The goal: a lease of many keys, also of more than fit into one call, is above the fences of all
// of them, and who holds one of them is named.
func TestTheFenceOfManyKeysIsAboveAllOfThem(t *testing.T) {
	for _, n := range []int{2, 125, 126, 300} {
		for name, call := range map[string]func(context.Context, *lockpipe.Client,
			[]string) (*lockpipe.Lease, error){
			"try": func(ctx context.Context, c *lockpipe.Client, keys []string) (*lockpipe.Lease,
				error,
			) {
				return c.TryAcquireAll(ctx, keys, lockpipe.WithFencing())
			},
			"wait": func(ctx context.Context, c *lockpipe.Client, keys []string) (*lockpipe.Lease,
				error,
			) {
				return waitForAsync(c)(ctx, keys, lockpipe.WithFencing())
			},
		} {
			inBubble(t, 5, func(t *testing.T, v *virtual, c *lockpipe.Client) {
				var seen fence.Checker
				keys := keysOf("k", n)
				fenced(t, v.shifted(t, time.Minute), &seen, keys[0])
				fenced(t, v.shifted(t, time.Hour), &seen, keys[n-1])
				l, err := call(t.Context(), c, keys)
				require.NoError(t, err, "%s %d", name, n)
				passed(t, &seen, l)
				v.onlyCompanions(t)

				held := v.hold(t, c, keys[n/2], lockpipe.WithFencing())
				_, err = c.TryAcquireAll(t.Context(), keys, lockpipe.WithFencing())
				var e *lockpipe.HeldError
				require.ErrorAs(t, err, &e)
				require.Equal(t, []string{keys[n/2]}, e.Keys)
				passed(t, &seen, held)
				v.onlyCompanions(t)
			})
		}
	}
}

// The goal: on real servers, with many callers of clients whose clocks differ, and a server that
// comes back empty, all fences of a key rise.
func TestFencesRiseOnServers(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	var seen fence.Checker
	work := func(rounds int) {
		var all sync.WaitGroup
		for _, shift := range []time.Duration{
			0, -5 * time.Minute, 2 * time.Minute,
			-time.Millisecond,
		} {
			c := connected(t, newClient(t, nodes, func(cfg *lockpipe.Config) {
				cfg.RestartGuard = lockpipe.GuardOff
			}))
			lockpipe.ShiftClock(c, shift)
			for i := range 4 {
				all.Go(func() {
					for r := range rounds {
						keys := []string{fmt.Sprint("k", i%2)}
						if r%5 == 0 {
							keys = []string{"k0", "k1"}
						}
						l, err := c.AcquireAll(context.Background(), keys, lockpipe.WithFencing())
						if err != nil {
							t.Error(err)
							return
						}
						for _, k := range keys {
							if !seen.Allow(k, l.Fence()) {
								t.Errorf("%s: %d is not above the fences before it", k, l.Fence())
							}
						}
						if err := l.Release(context.Background()); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
	}
	work(30)
	require.NoError(t, nodes.Restart(1))
	work(10)
	nothingLeft(t, nodes)
}
