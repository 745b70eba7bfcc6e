package calls

import (
	"context"
	"math/rand/v2"
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

// The goal: a release in another process wakes a call that waits, at whatever moment it comes, and
// however long the call's delay between two attempts is.
func TestAcquireAny_AReleaseIsNotMissed(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	holder := kit.Connected(t, kit.NewClient(t, nodes))
	// An attempt that finds no quorum in time waits for the delay.
	other := kit.Connected(t, kit.NewClient(t, nodes, kit.Timeout(kit.Patient)))
	keys := lockpipe.Slots("slot", 2)
	for range 30 {
		first, second := kit.Take(t, holder, keys[0]), kit.Take(t, holder, keys[1])
		ended := kit.Later(func() kit.Outcome {
			ctx, cancel := context.WithTimeout(t.Context(), kit.Patient)
			defer cancel()
			l, err := other.AcquireAny(ctx, keys,
				lockpipe.WithRetryDelay(time.Minute, time.Minute))
			return kit.OutcomeNow(l, err)
		})
		time.Sleep(rand.N(time.Millisecond)) // any moment of the call
		kit.Release(t, first)
		o := <-ended
		require.NoError(t, o.Err, "it misses the release")
		kit.Release(t, o.Lease)
		kit.Release(t, second)
	}
}

// The goal: a call with WithMaxAttempts is not behind calls that wait.
func TestAcquireAny_WithMaxAttemptsDoesNotQueue(t *testing.T) {
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys := lockpipe.Slots("slot", 2)
		for i := range v.Nodes {
			v.Set(i, "slot:1", kit.Foreign)
			v.Set(i, "slot:2", kit.Foreign)
		}
		ctx, cancel := context.WithCancel(t.Context())
		first := kit.Later(func() error {
			_, err := c.AcquireAny(ctx, keys)
			return err
		})
		time.Sleep(time.Second)
		_, err := c.AcquireAny(t.Context(), keys, lockpipe.WithMaxAttempts(1))
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.ErrorContains(t, err, "waited 0s")
		cancel()
		require.ErrorIs(t, <-first, context.Canceled)
	})
}

// The goal: if ctx has ended before the call, nothing says that the keys are held.
func TestAcquireAny_AnEndedContextSaysNothingOfTheKeys(t *testing.T) {
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, call := range []func(context.Context, []string, ...lockpipe.Option) (
			*lockpipe.Lease, error,
		){c.AcquireAny, c.TryAcquireAny} {
			_, err := call(ctx, []string{"a", "b"})
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, lockpipe.ErrHeld)
		}
		require.Zero(t, v.Sent())
	})
}

// The goal: if the nodes get a release one after the other, the call does not wait for its delay.
// It watches the key where it is still held.
func TestAcquireAny_AReleaseIsSeenWhereItIsLate(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes, kit.Timeout(kit.Patient)))
	keys := lockpipe.Slots("slot", 2)
	for last := range nodes.Len() { // one of them is the key's arbiter
		for i := range nodes.Len() {
			for _, key := range keys {
				_, err := nodes.Do(i, "SET", kit.Prefix+key, kit.Foreign, "PX", "600000")
				require.NoError(t, err)
			}
		}
		ended := kit.Later(func() kit.Outcome {
			l, err := c.AcquireAny(t.Context(), keys,
				lockpipe.WithRetryDelay(time.Minute, time.Minute))
			return kit.OutcomeNow(l, err)
		})
		for k := range nodes.Len() {
			// The call mostly sees one after the other. If it sees two at once, it has less to do.
			time.Sleep(20 * time.Millisecond)
			_, err := nodes.Do((last+1+k)%nodes.Len(), "DEL", kit.Prefix+keys[0])
			require.NoError(t, err)
		}
		o := kit.Receive(t, ended, "it waits for its delay")
		require.NoError(t, o.Err)
		kit.Release(t, o.Lease)
	}
}

// The goal: while a node has free keys that a quorum refuses, a call makes few attempts.
func TestAcquireAny_FreeKeysOnOneNodeCostFewAttempts(t *testing.T) {
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys := lockpipe.Slots("slot", 8)
		for i := range 2 {
			for _, key := range keys {
				v.Set(i, key, kit.Foreign)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := c.AcquireAny(ctx, keys, lockpipe.WithRetryDelay(0, time.Second))
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.Less(t, c.Stats().Attempts, uint64(150), "some 20 delays pass")
	})
}

// The goal: while no quorum is connected, a call makes one attempt, and then waits for the nodes.
func TestAcquireAny_MakesNoAttemptsInAnOutage(t *testing.T) {
	kit.InOutage(t, 1, func(t *testing.T, k *kit.Cable, c *lockpipe.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		before := c.Stats().Attempts
		_, err := c.AcquireAny(ctx, []string{"a", "b"})
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, c.Stats().Attempts-before, uint64(2))
		k.Reconnected(t, c)
	})
}

// The goal: with clients that want one or any of the same keys, and nodes that hang now and then,
// no key has two holders, and nothing is left.
func TestAcquireAny_ExcludesWhateverNodesDo(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			v := kit.NewFakeNodes(t, 1+int(seed))
			v.Latency(2 * time.Millisecond)
			keys := lockpipe.Slots("slot", 3)
			holders := map[string]*atomic.Int32{}
			for _, key := range keys {
				holders[key] = new(atomic.Int32)
			}
			var callers sync.WaitGroup
			for i := range 6 {
				c := v.Client(t, kit.Timeout(20*time.Millisecond))
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				callers.Go(func() { wantOneOrAny(c, rng, keys, holders, t) })
			}
			faults := rand.New(rand.NewPCG(seed, 99))
			for range 30 {
				time.Sleep(time.Duration(1+faults.IntN(60)) * time.Millisecond)
				i := faults.IntN(len(v.Nodes))
				v.Silence(i)
				time.Sleep(time.Duration(1+faults.IntN(60)) * time.Millisecond)
				v.Speak(i)
			}
			callers.Wait()
			time.Sleep(time.Second)
			v.NothingLeft(t)
		})
	}
}

// wantOneOrAny takes one or any of the keys a few times, and checks that it is alone.
func wantOneOrAny(c *lockpipe.Client, rng *rand.Rand, keys []string,
	holders map[string]*atomic.Int32, t *testing.T,
) {
	for range 15 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rng.IntN(400))*
			time.Millisecond)
		l, err := c.AcquireAny(ctx, keys)
		if rng.IntN(3) == 0 && err != nil {
			l, err = c.Acquire(ctx, keys[rng.IntN(len(keys))])
		}
		cancel()
		if err != nil {
			continue
		}
		if holders[l.Key()].Add(1) > 1 && l.Err() == nil {
			t.Errorf("%s has two holders", l.Key())
		}
		time.Sleep(time.Duration(1+rng.IntN(30)) * time.Millisecond)
		if rng.IntN(3) == 0 {
			_ = l.Extend(t.Context(), kit.LongTTL)
		}
		holders[l.Key()].Add(-1)
		_ = l.Release(t.Context())
	}
}

// The goal: WithCount takes so many keys under one lease, or none of them.
func TestAcquireAny_WithCountTakesSoManyOrNone(t *testing.T) {
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		pieces := lockpipe.Slots("piece", 5)
		first, err := c.TryAcquireAny(t.Context(), pieces, lockpipe.WithCount(3))
		require.NoError(t, err)
		require.Len(t, first.Keys(), 3)
		require.Subset(t, pieces, first.Keys())
		synctest.Wait()
		for i := range v.Nodes {
			require.Len(t, v.Keys(i), 3)
		}
		_, err = c.TryAcquireAny(t.Context(), pieces, lockpipe.WithCount(3))
		var held *lockpipe.HeldError
		require.ErrorAs(t, err, &held)
		require.ElementsMatch(t, first.Keys(), held.Keys, "these are in the way")
		second, err := c.TryAcquireAny(t.Context(), pieces, lockpipe.WithCount(2))
		require.NoError(t, err)
		require.NotContains(t, first.Keys(), second.Keys()[0])
		require.NoError(t, c.ReleaseAll(t.Context(), first, second))
		v.NothingLeft(t)
	})
}

// The goal: a call that waits for several keys has them when so many are free at the same time,
// whether one release frees all of them or one after the other.
func TestAcquireAny_WithCountWaitsForSoMany(t *testing.T) {
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		pieces := lockpipe.Slots("piece", 4)
		var leases []*lockpipe.Lease
		for range pieces {
			l, err := c.TryAcquireAny(t.Context(), pieces)
			require.NoError(t, err)
			leases = append(leases, l)
		}
		ended := kit.Later(func() kit.Outcome {
			l, err := c.AcquireAny(t.Context(), pieces, lockpipe.WithCount(2))
			return kit.OutcomeNow(l, err)
		})
		time.Sleep(time.Second)
		kit.Release(t, leases[0])
		time.Sleep(time.Second)
		kit.Waits(t, ended)
		kit.Release(t, leases[1])
		time.Sleep(time.Second)
		both := kit.Granted(t, ended)
		require.ElementsMatch(t, []string{leases[0].Key(), leases[1].Key()}, both.Keys())
		require.NoError(t, c.ReleaseAll(t.Context(), both, leases[2], leases[3]))
		v.NothingLeft(t)
	})
}

// The goal: callers that wait for few slots share what they know: a turn costs the nodes little
// more than the lock.
func TestAcquireAny_ATurnCostsLittleMoreThanTheLock(t *testing.T) {
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		const callers, turns = 16, 20
		v.Latency(time.Millisecond)
		slots := lockpipe.Slots("slot", 4)
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for range turns {
					l, err := c.AcquireAny(t.Context(), slots)
					if !assertGranted(t, err) {
						return
					}
					time.Sleep(5 * time.Millisecond)
					_ = l.Release(t.Context())
				}
			})
		}
		all.Wait()
		require.Less(t, c.Stats().Attempts, uint64(3*callers*turns), "acquires and releases")
	})
}
