package calls

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// takeKey calls TryAcquireAny until it takes the wanted key, and leaves the others free.
func takeKey(t *testing.T, c *lockpipe.Client, keys []string, want string) *lockpipe.Lease {
	t.Helper()
	for range 1000 {
		l, err := c.TryAcquireAny(t.Context(), keys)
		require.NoError(t, err)
		if l.Key() == want {
			return l
		}
		kit.Release(t, l)
		synctest.Wait()
	}
	require.Fail(t, "it never takes the key")
	return nil
}

// The goal: of 16 keys the only one that is free is taken, in two round trips, and no other.
func TestAcquireAny_TakesTheFreeKeyInTwoRoundTrips(t *testing.T) {
	kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys := lockpipe.Slots("slot", 16)
		warm := takeKey(t, c, keys, "slot:7") // loads the script
		kit.Release(t, warm)
		for i := range v.Nodes {
			for _, key := range slices.Delete(slices.Clone(keys), 6, 7) {
				v.Set(i, key, kit.Foreign)
			}
		}
		before := v.Sent()
		var reads atomic.Int32
		v.Watch(func(_ int, command string, _ []string) {
			if command == "PTTL" {
				reads.Add(1)
			}
		})
		l, err := c.TryAcquireAny(t.Context(), keys)
		require.NoError(t, err)
		require.LessOrEqual(t, reads.Load(), int32(5*16), "one look")
		require.Equal(t, 5, v.Sent()-before, "one acquire for each node")
		require.Equal(t, []string{"slot:7"}, l.Keys())
		for i := range v.Nodes {
			require.Equal(t, l.Token(), v.Get(i, "slot:7"))
		}
		require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
		kit.Release(t, l)
		synctest.Wait()
		for i := range v.Nodes {
			require.Len(t, v.Keys(i), 15)
			require.Empty(t, v.Get(i, "slot:7"))
		}
	})
}

// The goal: three pieces of 1,000, of which 900 are taken, cost two round trips: each way of a trip
// takes 10 ms at most.
func TestAcquireAny_LooksAtAllKeysInOneTrip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 3)
		v.Latency(10 * time.Millisecond)
		c := v.Client(t, v.InOrder(0, 1, 2))
		pieces := lockpipe.Slots("piece", 1000)
		for i := range v.Nodes {
			for _, key := range pieces[:900] {
				v.Set(i, key, kit.Foreign)
			}
		}
		for try := range 20 {
			begun := time.Now()
			l, err := c.TryAcquireAny(t.Context(), pieces, lockpipe.WithCount(3))
			require.NoError(t, err)
			require.Subset(t, pieces[900:], l.Keys())
			if try > 0 { // the first one connects and loads the script
				require.LessOrEqual(t, time.Since(begun), 40*time.Millisecond)
			}
			kit.Release(t, l)
			time.Sleep(time.Second) // until it is released on all nodes
		}
	})
}

// The goal: if all keys are free, one is taken, and the others are left free.
func TestAcquireAny_TakesNoMoreThanOneKey(t *testing.T) {
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		taken := map[string]bool{}
		for range 4 {
			l, err := c.TryAcquireAny(t.Context(), lockpipe.Slots("slot", 4))
			require.NoError(t, err)
			synctest.Wait()
			taken[l.Key()] = true
			for i := range v.Nodes {
				require.Len(t, v.Keys(i), len(taken))
			}
		}
		_, err := c.TryAcquireAny(t.Context(), lockpipe.Slots("slot", 4))
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		var held *lockpipe.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, lockpipe.Slots("slot", 4), held.Keys)
		require.GreaterOrEqual(t, len(held.Nodes), 2, "so many decide")
	})
}

// The goal: a key that another has on one node alone is taken too, also if the node answers late.
// The lease stays, and leaves nothing.
func TestAcquireAny_TakesAKeyThatAnotherHasOnOneNode(t *testing.T) {
	for _, late := range []bool{false, true} {
		kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			keys := []string{"a", "b"}
			v.Set(4, "a", kit.Foreign)
			if late {
				v.Silence(4)
			}
			l := takeKey(t, c, keys, "a")
			if late {
				v.Speak(4)
			}
			synctest.Wait()
			require.Empty(t, v.Get(4, "b"))
			require.NoError(t, l.Err())
			require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
			kit.Release(t, l)
			v.Del(4, "a")
			v.NothingLeft(t)
		})
	}
}

// The goal: a key that too few nodes could grant is held: the call makes no attempt.
func TestAcquireAny_TriesNoKeyWithoutAQuorumOfFreeNodes(t *testing.T) {
	kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		for i, held := range [][]string{{"b"}, {"b"}, {"a"}, {"a"}, {"a", "b"}} {
			for _, key := range held {
				v.Set(i, key, kit.Foreign)
			}
		}
		_, err := c.TryAcquireAny(t.Context(), []string{"a", "b"})
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.ErrorContains(t, err, `"a" "b" held by another caller, seen on `)
		synctest.Wait()
		for i, left := range []int{1, 1, 1, 1, 2} {
			require.Len(t, v.Keys(i), left, "node %d", i)
		}
		require.Zero(t, c.Stats().Attempts)
	})
}

// The goal: calls that wait are granted in the order of arrival, one for each key that is released.
func TestAcquireAny_WaitsInTheOrderOfArrival(t *testing.T) {
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys := lockpipe.Slots("slot", 2)
		wait := func() <-chan kit.Outcome {
			ended := kit.Later(func() kit.Outcome {
				l, err := c.AcquireAny(t.Context(), keys)
				return kit.OutcomeNow(l, err)
			})
			time.Sleep(time.Millisecond)
			return ended
		}
		first, second := kit.Granted(t, wait()), kit.Granted(t, wait())
		third, fourth := wait(), wait()
		time.Sleep(time.Second)
		kit.Waits(t, third)
		kit.Release(t, second)
		time.Sleep(time.Second)
		l := kit.Granted(t, third)
		require.Equal(t, second.Key(), l.Key())
		kit.Waits(t, fourth)
		kit.Release(t, first)
		time.Sleep(time.Second)
		kit.Release(t, kit.Granted(t, fourth))
		kit.Release(t, l)
		v.NothingLeft(t)
	})
}

// The goal: the end of ctx ends a call that waits, first in the queue or behind another, and the
// error says for which keys.
func TestAcquireAny_TheEndOfTheContextEndsIt(t *testing.T) {
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys := lockpipe.Slots("slot", 2)
		for i := range v.Nodes {
			v.Set(i, "slot:1", kit.Foreign)
			v.Set(i, "slot:2", kit.Foreign)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var calls sync.WaitGroup
		for range 2 {
			calls.Go(func() {
				_, err := c.AcquireAny(ctx, keys)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, lockpipe.ErrHeld)
				require.ErrorContains(t, err, `waited 1s for "slot:1" and 1 more`)
				var held *lockpipe.HeldError
				require.ErrorAs(t, err, &held)
				require.Equal(t, keys, held.Keys)
			})
		}
		calls.Wait()
		_, err := c.AcquireAny(t.Context(), keys, lockpipe.WithMaxAttempts(3))
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.Zero(t, c.Stats().Waiters)
	})
}

// The goal: while no quorum can be reached, a call that waits does not spin.
func TestAcquireAny_WaitsForAQuorumWithoutSpinning(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		v.Fail(0, "OOM command not allowed")
		v.Fail(1, "OOM command not allowed")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.AcquireAny(ctx, lockpipe.Slots("slot", 3), lockpipe.WithRetryDelay(0, 0))
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, c.Stats().Attempts, uint64(2000))
		v.Heal(0, 1)
		v.NothingLeft(t)
	})
}

// The goal: bad arguments are refused with the remedy, before anything is sent.
func TestAcquireAny_RefusesBadArguments(t *testing.T) {
	kit.InBubble(t, 1, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		for want, call := range map[string]func() (*lockpipe.Lease, error){
			"give at most 1000": func() (*lockpipe.Lease, error) {
				return c.TryAcquireAny(t.Context(), lockpipe.Slots("slot", 1001))
			},
			"WithCount(0) of 1 different keys: give from 1 to their": func() (*lockpipe.Lease, error) {
				return c.TryAcquireAny(t.Context(), []string{"a"}, lockpipe.WithCount(0))
			},
			"WithCount(3) of 2 different keys": func() (*lockpipe.Lease, error) {
				return c.AcquireAny(t.Context(), []string{"a", "b", "a"}, lockpipe.WithCount(3))
			},
			"WithCount(1) is for AcquireAny": func() (*lockpipe.Lease, error) {
				return c.AcquireAll(t.Context(), []string{"a", "b"}, lockpipe.WithCount(1))
			},
			"WithCount(2) is for AcquireAny": func() (*lockpipe.Lease, error) {
				lead := func(context.Context, *lockpipe.Lease) error { return nil }
				return nil, c.Elect(t.Context(), "a", lead, lockpipe.WithCount(2))
			},
			"give at least one": func() (*lockpipe.Lease, error) {
				return c.AcquireAny(t.Context(), lockpipe.Slots("slot", -1))
			},
			"use Acquire": func() (*lockpipe.Lease, error) {
				return c.AcquireAny(t.Context(), []string{"a", "b"}, lockpipe.WithFencing())
			},
		} {
			_, err := call()
			require.ErrorIs(t, err, lockpipe.ErrInvalid)
			require.ErrorContains(t, err, want)
		}
		require.Zero(t, v.Sent())
	})
}

// The goal: with two clients and many callers at once, no more than n of them hold one of n keys,
// each gets its turn, and nothing is left.
func TestAcquireAny_AtMostSoManyAtATime(t *testing.T) {
	t.Parallel()
	const slots, callers, rounds = 3, 8, 5
	nodes := servertest.Start(t, 3)
	keys := lockpipe.Slots("slot", slots)
	var holders atomic.Int32
	var held [slots]atomic.Bool
	var all sync.WaitGroup
	for range 2 {
		c := kit.Connected(t, kit.NewClient(t, nodes))
		for range callers {
			all.Go(func() {
				for range rounds {
					l, err := c.AcquireAny(t.Context(), keys)
					if !assertGranted(t, err) {
						return
					}
					i := slices.Index(keys, l.Key())
					if held[i].Swap(true) || holders.Add(1) > slots {
						t.Errorf("too many hold %s", l.Key())
					}
					holders.Add(-1)
					held[i].Store(false)
					_ = l.Release(t.Context())
				}
			})
		}
	}
	all.Wait()
	kit.NothingLeft(t, nodes)
}

func assertGranted(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// The goal: Slots names the keys.
func TestSlots_NamesTheKeys(t *testing.T) {
	require.Equal(t, []string{"export:1", "export:2"}, lockpipe.Slots("export", 2))
	require.Empty(t, lockpipe.Slots("export", 0))
}

// The goal: whenever the context of a call ends, the error says why the attempt before failed.
func TestAcquireAny_SaysWhyWheneverItsContextEnds(t *testing.T) {
	t.Parallel()
	keys := lockpipe.Slots("slot", 3)
	held := func(v *kit.FakeNodes) {
		for _, key := range keys {
			for i := range v.Nodes {
				v.Set(i, key, kit.Foreign)
			}
		}
	}
	noQuorum := func(v *kit.FakeNodes) { v.Fail(0, kit.OutOfMemory); v.Fail(1, kit.OutOfMemory) }
	for _, c := range []struct {
		prepare func(*kit.FakeNodes)
		want    error
	}{{held, lockpipe.ErrHeld}, {noQuorum, lockpipe.ErrNoQuorum}} {
		for looks := range 20 {
			kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, client *lockpipe.Client) {
				c.prepare(v)
				kit.SaysWhy(t, client, keys, looks, c.want)
				v.Heal(0, 1)
			})
		}
	}
}
