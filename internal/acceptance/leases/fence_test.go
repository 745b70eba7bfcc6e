package leases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/fence"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: over clients whose clocks differ by minutes, and all ways to take keys that overlap,
// the fences of each key rise.
func TestFence_RisesWhateverTheClocksSay(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		clients := []*lockpipe.Client{
			c, v.Shifted(t, -7*time.Minute), v.Shifted(t, 3*time.Minute),
			v.Shifted(t, -time.Millisecond),
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
				kit.Fenced(t, c, &seen, keys...)
			case 1:
				l, err := c.AcquireAll(t.Context(), keys, lockpipe.WithFencing())
				require.NoError(t, err)
				kit.Passed(t, &seen, l)
			case 2:
				l := kit.Granted(t, kit.Async(t.Context(), t, c, keys, lockpipe.WithFencing()))
				kit.Passed(t, &seen, l)
			case 3:
				for _, r := range c.TryAcquireEach(t.Context(), keys, lockpipe.WithFencing()) {
					require.NoError(t, r.Err)
					kit.Passed(t, &seen, r.Lease)
				}
			}
			time.Sleep(time.Duration(rng.IntN(3)) * time.Microsecond)
		}
		v.OnlyCompanions(t)
	})
}

// The goal: Fence is 0 without fencing, and stays readable when the lease is over.
func TestFence_IsReadableAfterTheEnd(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k", lockpipe.WithFencing(), lockpipe.WithTTL(time.Second),
			lockpipe.WithAutoExtend(10*time.Second))
		f := l.Fence()
		require.Equal(t, time.Now().UnixMicro(), f)
		for i := range v.Nodes {
			require.Equal(t, strconv.FormatInt(f, 10), v.Fence(i, "k"))
		}
		time.Sleep(5 * time.Second)
		kit.Lasting(t, l)
		require.Equal(t, f, l.Fence(), "extensions keep it")
		<-l.Done()
		require.Equal(t, f, l.Fence())
		synctest.Wait() // the keys are deleted once the holder has been notified
		plain := v.Hold(t, c, "k")
		require.Zero(t, plain.Fence())
		kit.Release(t, plain)
		require.Zero(t, (*lockpipe.Lease)(nil).Fence())
		v.OnlyCompanions(t)
	})
}

// The goal: if a quorum has seen fences that no client can top, the call fails after one attempt.
// Its error is not ErrHeld, and it leaves nothing.
func TestFence_OneThatCannotBeToppedIsNotHeld(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		for i := range 3 {
			v.SetFence(i, "k", strconv.FormatInt(1<<53-1, 10))
		}
		before := c.Stats().Attempts
		_, err := c.TryAcquire(t.Context(), "k", lockpipe.WithFencing())
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		require.NotErrorIs(t, err, lockpipe.ErrHeld)
		require.ErrorContains(t, err, "a fence of 9007199254740991 was granted before")
		require.ErrorContains(t, err, "until the nodes forget it")
		require.Equal(t, before+1, c.Stats().Attempts)
		v.OnlyCompanions(t)

		_, err = c.Acquire(t.Context(), "k", lockpipe.WithFencing(), lockpipe.WithMaxAttempts(3),
			lockpipe.WithRetryDelay(time.Second, time.Second))
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		v.OnlyCompanions(t)
	})
}

// The goal: a number that a node knows, however high, matters for its own key alone. All other keys
// are acquired with fences of the time, and handed over: at the first attempt, except at most once,
// while the client does not know of the number. That is if both keys are in one round, which the
// scheduler may prevent. Its own key is granted again if the number can be topped, and refused
// otherwise.
func TestFence_AHighNumberIsOfItsKeyAlone(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"9007199254740991": false, "99999999999999999": false,
		"9007199254740989": true, "4102444800000000": true,
	} {
		kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			var seen fence.Checker
			for i := range 3 {
				v.SetFence(i, "bad", text)
			}
			for round := range 2 {
				before := c.Stats().Attempts
				shared := uint64(1 - round) // a further attempt for the good key
				results := c.TryAcquireEach(t.Context(), []string{"bad", "good"},
					lockpipe.WithFencing())
				require.NoError(t, results[1].Err)
				require.Less(t, kit.Passed(t, &seen, results[1].Lease), time.Now().UnixMicro()+10)
				if bad := results[0]; ok {
					require.NoError(t, bad.Err)
					kit.Passed(t, &seen, bad.Lease)
					require.Contains(t, []uint64{3, 3 + shared}, c.Stats().Attempts-before,
						"the price of this key")
				} else {
					require.ErrorIs(t, bad.Err, lockpipe.ErrNoQuorum)
					require.ErrorContains(t, bad.Err, "until the nodes forget it")
					require.Contains(t, []uint64{2, 2 + shared}, c.Stats().Attempts-before)
				}
			}
			l := kit.Try(t, c, "handed", lockpipe.WithFencing())
			var all []<-chan kit.Outcome
			for range 5 {
				all = append(all, kit.Queue(t, c, "handed", lockpipe.WithFencing()))
			}
			for _, next := range all {
				kit.Passed(t, &seen, l)
				l = kit.Granted(t, next)
			}
			kit.Passed(t, &seen, l)
			require.Equal(t, uint64(4), c.Stats().Handovers)
			v.OnlyCompanions(t)
		})
	}
}

// The goal: a minority node that has the highest fence there is does not raise the fence of others
// that are only ahead, in any order of answers.
func TestFence_OneNodeAtTheEndDoesNotDragItsKeyThere(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		ahead := time.Now().Add(time.Minute).UnixMicro()
		v.SetFence(0, "k", "9007199254740991")
		for i := 1; i < 5; i++ {
			v.SetFence(i, "k", strconv.FormatInt(ahead, 10))
		}
		for range 10 {
			l := kit.Try(t, c, "k", lockpipe.WithFencing())
			require.Greater(t, l.Fence(), ahead)
			require.Less(t, l.Fence(), ahead+100)
			kit.Release(t, l)
			v.OnlyCompanions(t)
		}
	})
}

// The goal: what counters on the nodes would get wrong: (5,1,1), then a lease by nodes 0 and 1,
// then one by nodes 1 and 2, which would be 6 and then 3.
func TestFence_RisesWhereCountersWouldNot(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		var seen fence.Checker
		ahead, behind := v.Shifted(t, time.Minute), v.Shifted(t, -time.Minute)
		v.Fail(1, kit.OutOfMemory)
		v.Fail(2, kit.OutOfMemory)
		for range 5 {
			_, err := ahead.TryAcquire(t.Context(), "k", lockpipe.WithFencing())
			require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
			synctest.Wait()
		}
		v.Heal(1)
		kit.Fenced(t, c, &seen, "k")
		v.Heal(2)
		v.Fail(0, kit.OutOfMemory)
		kit.Fenced(t, behind, &seen, "k")
		v.Heal(0)
		v.Fail(1, kit.OutOfMemory)
		kit.Fenced(t, behind, &seen, "k")
		kit.Fenced(t, c, &seen, "k")
	})
}

// The goal: a minority that forgot its numbers does not let a fence go back that all nodes had
// granted.
func TestFence_RisesThoughAMinorityForgotIt(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		var seen fence.Checker
		behind := v.Shifted(t, -10*time.Minute)
		kit.Passed(t, &seen, v.Hold(t, c, "k", lockpipe.WithFencing()))
		v.ForgetFence(1, "k")
		v.ForgetFence(4, "k")
		kit.Fenced(t, behind, &seen, "k")
	})
}

// The goal: if an extension gives nodes the keys again, they have the fence again too. A node that
// has a higher fence keeps it.
func TestFence_ARefillBringsItBack(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		var seen fence.Checker
		behind := v.Shifted(t, -10*time.Minute)
		l, err := c.TryAcquireAll(t.Context(), []string{"a", "b"}, lockpipe.WithFencing())
		require.NoError(t, err)
		synctest.Wait()
		for _, i := range []int{0, 1} {
			for _, k := range []string{"a", "b"} {
				v.Del(i, k)
				v.ForgetFence(i, k)
			}
		}
		high := strconv.FormatInt(l.Fence()+1, 10)
		v.SetFence(4, "b", high)
		require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
		synctest.Wait()
		require.Equal(t, high, v.Fence(4, "b"))
		for _, i := range []int{0, 1} {
			require.Equal(t, l.Token(), v.Get(i, "b"))
			require.Equal(t, strconv.FormatInt(l.Fence(), 10), v.Fence(i, "b"))
		}
		for _, i := range []int{2, 3} {
			v.ForgetFence(i, "a")
		}
		kit.Passed(t, &seen, l)
		kit.Fenced(t, behind, &seen, "a")
	})
}

// The goal: the fence of a lease of many keys, also of more than fit into one call, is above the
// fences of all of them. The error names the holder of one of them.
func TestFence_OfManyKeysIsAboveAllOfThem(t *testing.T) {
	kit.SkipIfShort(t, "fences of more keys than fit into one call")
	t.Parallel()
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
				return kit.WaitForAsync(c)(ctx, keys, lockpipe.WithFencing())
			},
		} {
			kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
				var seen fence.Checker
				keys := kit.KeysOf("k", n)
				kit.Fenced(t, v.Shifted(t, time.Minute), &seen, keys[0])
				kit.Fenced(t, v.Shifted(t, time.Hour), &seen, keys[n-1])
				l, err := call(t.Context(), c, keys)
				require.NoError(t, err, "%s %d", name, n)
				kit.Passed(t, &seen, l)
				v.OnlyCompanions(t)

				held := v.Hold(t, c, keys[n/2], lockpipe.WithFencing())
				_, err = c.TryAcquireAll(t.Context(), keys, lockpipe.WithFencing())
				var e *lockpipe.HeldError
				require.ErrorAs(t, err, &e)
				require.Equal(t, []string{keys[n/2]}, e.Keys)
				kit.Passed(t, &seen, held)
				v.OnlyCompanions(t)
			})
		}
	}
}

// The goal: on real servers, with many callers of clients whose clocks differ, and a server that
// comes back empty, all fences of a key rise.
func TestFence_RisesOnServers(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	var seen fence.Checker
	work := func(rounds int) {
		var all sync.WaitGroup
		for _, shift := range []time.Duration{
			0, -5 * time.Minute, 2 * time.Minute,
			-time.Millisecond,
		} {
			c := kit.Connected(t, kit.NewClient(t, nodes, func(cfg *lockpipe.Config) {
				cfg.RestartGuard = lockpipe.GuardOff
			}))
			kit.ShiftClock(c, shift)
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
						// A busy machine may lose connections: then it goes on in the background.
						err = l.Release(context.Background())
						if err != nil && !errors.Is(err, lockpipe.ErrNoQuorum) {
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
	kit.NothingLeft(t, nodes)
}
