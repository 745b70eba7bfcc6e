package leases

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

const keptFor = 10 * time.Minute

// adopted is a lease that a handle got.
func adopted(t *testing.T, c *lockpipe.Client, handle string, opts ...lockpipe.Option,
) *lockpipe.Lease {
	t.Helper()
	l, err := c.Adopt(t.Context(), handle, opts...)
	require.NoError(t, err)
	return l
}

// notAdopted wants a handle to get nothing, for this reason.
func notAdopted(t *testing.T, c *lockpipe.Client, handle string, why error) {
	t.Helper()
	l, err := c.Adopt(t.Context(), handle)
	require.ErrorIs(t, err, why)
	require.NotContains(t, err.Error(), "cancelled")
	require.Nil(t, l)
}

// The goal: Keep waits for the nodes also if it is given a context that ends with its own lease.
func TestKeep_AContextOfItsOwnLeaseDoesNotCutItShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 3)
		v.Latency(50 * time.Millisecond)
		c := v.Client(t)
		require.NoError(t, c.Do(t.Context(), "do", func(ctx context.Context) error {
			return c.DoAll(ctx, []string{"in"}, func(ctx context.Context, l *lockpipe.Lease) error {
				ctx, cancel := context.WithTimeout(l.Bind(ctx), time.Minute)
				defer cancel()
				return l.Keep(ctx, keptFor)
			})
		}))
		l := kit.Take(t, c, "its context")
		require.NoError(t, l.Keep(l.Context(), keptFor))
		l = kit.Take(t, c, "around")
		around, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		require.ErrorIs(t, l.Keep(l.Bind(around), keptFor), context.DeadlineExceeded)
	})
}

// keptOnAll keeps the lease's keys, also on the nodes that a quorum does not need. Another client
// has another connection: its Adopt could come to such a node before the Keep.
func keptOnAll(t *testing.T, l *lockpipe.Lease) {
	t.Helper()
	require.NoError(t, l.Keep(t.Context(), keptFor))
	synctest.Wait()
}

// The goal: Adopt takes what Keep has left, in one trip, in a client with the nodes in another
// order, under a token of its own, and nobody else gets it before. Its release frees the keys.
func TestAdopt_TakesOverInOneTrip(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		other := v.Client(t, v.InOrder(2, 0, 1))
		for _, keys := range [][]string{{"k"}, kit.KeysOf("many", 3), kit.KeysOf("large", 300)} {
			former, err := c.TryAcquireAll(t.Context(), keys)
			require.NoError(t, err)
			handle := former.Handle()
			keptOnAll(t, former)
			kit.Over(t, former, lockpipe.ErrKept)
			for _, client := range []*lockpipe.Client{c, other} {
				_, err = client.TryAcquireAll(t.Context(), keys)
				require.ErrorIs(t, err, lockpipe.ErrHeld)
			}
			before := v.Sent()
			l := adopted(t, other, handle)
			scripts := 1 + (len(keys)-1)/250
			require.Equal(t, 3*scripts, v.Sent()-before)
			require.Equal(t, keys, l.Keys())
			require.NotEqual(t, former.Token(), l.Token())
			for i := range v.Nodes {
				for _, key := range keys {
					require.Equal(t, l.Token(), v.Get(i, key))
				}
			}
			require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
			kit.Release(t, former)
			kit.Lasting(t, l)
			for _, client := range []*lockpipe.Client{c, other} {
				notAdopted(t, client, handle, lockpipe.ErrHeld)
			}
			kit.Lasting(t, l)
			kit.Release(t, l)
			v.NothingLeft(t)
			notAdopted(t, other, handle, lockpipe.ErrExpired)
		}
		v.NothingLeft(t)
	})
}

// The goal: without Keep no handle gets a key, whether its lease lasts, has expired or was
// released.
func TestAdopt_WithoutAMarkGetsNothing(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		other := v.Client(t)
		l := v.Hold(t, c, "k", lockpipe.WithTTL(10*time.Second))
		before := v.Sent()
		notAdopted(t, other, l.Handle(), lockpipe.ErrHeld)
		require.Equal(t, 3, v.Sent()-before, "one trip, and nothing to put back")
		kit.Lasting(t, l)
		for i := range v.Nodes {
			require.Equal(t, l.Token(), v.Get(i, "k"))
		}
		require.NoError(t, l.Extend(t.Context(), 10*time.Second))
		time.Sleep(11 * time.Second)
		notAdopted(t, other, l.Handle(), lockpipe.ErrExpired)
		released := v.Hold(t, c, "k")
		kit.Release(t, released)
		synctest.Wait() // on all nodes
		notAdopted(t, other, released.Handle(), lockpipe.ErrExpired)
		next := v.Hold(t, c, "k")
		notAdopted(t, other, released.Handle(), lockpipe.ErrHeld)
		kit.Lasting(t, next)
		kit.Release(t, next)
		synctest.Wait()
		v.Set(2, "k", next.Token()) // as where the release has not come yet
		notAdopted(t, other, released.Handle(), lockpipe.ErrExpired)
		v.Del(2, "k")
		v.NothingLeft(t)
	})
}

// The goal: the lease is over before Keep has sent anything, whatever becomes of it.
func TestKeep_EndsTheLeaseFirst(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k", kit.Auto(10*time.Second, time.Hour)...)
		v.Watch(func(int, string, []string) {
			require.Equal(t, lockpipe.ErrKept, context.Cause(l.Context()))
		})
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.Keep(ended, keptFor), context.Canceled)
		kit.Lasting(t, l) // the call made no sense
		v.Fail(0, kit.ReadOnly)
		v.Fail(1, kit.ReadOnly)
		err := l.Keep(t.Context(), keptFor)
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		require.ErrorContains(t, err, "1 of 3 nodes kept the keys, 2 needed")
		require.Equal(t, 1, kit.QuorumError(t, err).Granted)
		kit.Over(t, l, lockpipe.ErrKept)
		v.Heal(0)
		require.NoError(t, l.Keep(t.Context(), keptFor), "it goes on in the background")
		require.Contains(t, v.Value(0, "k"), " ")
		kit.Release(t, l)
		v.Watch(nil)
	})
}

// The goal: Keep is repeated for a node that did not answer, while that has the token.
func TestKeep_IsRepeated(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k")
		v.Fail(2, kit.ReadOnly)
		require.NoError(t, l.Keep(t.Context(), keptFor))
		require.Equal(t, l.Token()+"C", v.Value(2, "k"))
		v.Heal(2)
		time.Sleep(time.Second)
		require.Equal(t, l.Token()+" C", v.Value(2, "k"))
		require.InDelta(t, keptFor.Seconds(), v.Ttl(2, "k").Seconds(), 2)
		time.Sleep(keptFor)
		v.NothingLeft(t)

		l = v.Hold(t, c, "k", lockpipe.WithTTL(10*time.Second))
		v.Fail(2, kit.ReadOnly)
		require.NoError(t, l.Keep(t.Context(), keptFor))
		time.Sleep(11 * time.Second)
		v.Heal(2)
		time.Sleep(time.Second)
		require.Empty(t, v.Value(2, "k"), "it is not kept where the token had expired")
	})
}

// The goal: Keep says that the lease was lost if too few nodes have its keys.
func TestKeep_OfALeaseThatWasLost(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k")
		v.Del(0, "k")
		v.Set(1, "k", "another")
		require.ErrorIs(t, l.Keep(t.Context(), keptFor), lockpipe.ErrLost)
		kit.Over(t, l, lockpipe.ErrKept)
		synctest.Wait()
		require.Empty(t, v.Value(0, "k"))
		require.Equal(t, "another", v.Value(1, "k"))
		notAdopted(t, c, l.Handle(), lockpipe.ErrHeld)
		v.Del(1, "k")
		notAdopted(t, c, l.Handle(), lockpipe.ErrExpired)
		synctest.Wait()
		require.Equal(t, l.Token()+" C", v.Value(2, "k"), "put back")
	})
}

// The goal: where Keep has reached some nodes alone, Adopt takes the others too.
func TestAdopt_TakesWhatKeepHasMissed(t *testing.T) {
	t.Parallel()
	for missed := range 3 {
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			other := v.Client(t)
			l := v.Hold(t, c, "k")
			for i := range 3 {
				if i != missed {
					v.Fail(i, kit.ReadOnly)
				}
			}
			require.ErrorIs(t, l.Keep(t.Context(), keptFor), lockpipe.ErrNoQuorum)
			kit.CloseSoon(c) // or it would repeat Keep
			v.Heal(0, 1, 2)
			next := adopted(t, other, l.Handle())
			synctest.Wait()
			for i := range 3 {
				require.Equal(t, next.Token(), v.Get(i, "k"))
			}
			kit.Release(t, next)
			v.NothingLeft(t)
		})
	}
}

// The goal: an Adopt that fails puts back what it took, with the time that is left, also on a node
// that can't answer meanwhile. Then another one gets it.
func TestAdopt_ThatFailedPutsBack(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		other := v.Client(t, kit.Timeout(time.Second))
		handle := kept(t, v, c, "k", keptFor)
		before := v.Value(2, "k")
		v.Fail(0, kit.ReadOnly)
		v.Fail(1, kit.ReadOnly)
		time.Sleep(time.Minute)
		notAdopted(t, other, handle, lockpipe.ErrNoQuorum)
		synctest.Wait()
		require.Equal(t, before, v.Value(2, "k"))
		require.Equal(t, keptFor-time.Minute, v.Ttl(2, "k"))
		v.Intercept(2, func(command string, args []string) string {
			if command == "EVALSHA" && len(args) > 6 && args[6] == "1" { // what it puts back
				return kit.Failed(kit.ReadOnly)
			}
			return ""
		})
		notAdopted(t, other, handle, lockpipe.ErrNoQuorum)
		synctest.Wait()
		require.NotContains(t, v.Value(2, "k"), " ")
		v.Intercept(2, nil)
		time.Sleep(time.Second)
		require.Equal(t, before, v.Value(2, "k"))
		v.Heal(0, 1)
		time.Sleep(5 * time.Second)
		kit.Release(t, adopted(t, c, handle))
		v.NothingLeft(t)
	})
}

// The goal: a release tells that the lease was lost, also if a node still keeps the key for the
// former holder.
func TestAdopt_ReleaseOfALeaseThatWasLost(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		handle := kept(t, v, c, "k", keptFor)
		kept := v.Value(2, "k")
		l := adopted(t, c, handle)
		synctest.Wait()
		v.Set(2, "k", kept)
		v.Del(0, "k")
		require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrLost)
		v.NothingLeft(t)
	})
}

// The goal: the keys last as long as the longer of what Keep and Adopt asked for, and the new lease
// as long as Adopt did.
func TestAdopt_TheLongerEndStays(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		handle := kept(t, v, c, "long", keptFor)
		dying := v.Client(t)
		l := adopted(t, dying, handle, lockpipe.WithTTL(10*time.Second))
		require.InDelta(t, 10, time.Until(l.Until()).Seconds(), 0.2)
		require.Equal(t, keptFor, v.Ttl(0, "long"))
		require.NoError(t, l.Extend(t.Context(), 20*time.Second))
		require.Equal(t, keptFor, v.Ttl(0, "long"))
		time.Sleep(20 * time.Second)
		kit.Over(t, l, lockpipe.ErrExpired)
		synctest.Wait()
		require.Empty(t, v.Value(0, "long"), "what a lease that is over leaves is deleted")

		handle = kept(t, v, c, "short", 50*time.Millisecond, lockpipe.WithTTL(time.Second))
		l = adopted(t, dying, handle, lockpipe.WithTTL(10*time.Second))
		synctest.Wait() // on all nodes
		require.Equal(t, 10*time.Second, v.Ttl(0, "short"))
		time.Sleep(9 * time.Second)
		kit.Lasting(t, l)
		kit.Release(t, l)
		v.NothingLeft(t)
	})
}

// The goal: what the former holder's client sends late changes nothing of the new lease: an
// extension, a release and a Keep that hung on a node.
func TestAdopt_LateCommandsOfTheFormerHolderChangeNothing(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		former := v.Client(t, kit.Timeout(time.Second))
		l := v.Hold(t, former, "k")
		v.Silence(0)
		require.NoError(t, l.Extend(t.Context(), kit.LongTTL)) // hangs on node 0
		require.NoError(t, l.Keep(t.Context(), keptFor))       // is behind it
		synctest.Wait()                                        // both have arrived there
		next := adopted(t, v.Client(t, kit.Timeout(time.Second)), l.Handle())
		v.Speak(0)
		time.Sleep(5 * time.Second)
		kit.Lasting(t, next)
		for i := range v.Nodes {
			require.Equal(t, next.Token(), v.Get(i, "k"), "node %d", i)
		}
		require.NoError(t, next.Extend(t.Context(), kit.LongTTL))
		kit.Release(t, next)
		time.Sleep(5 * time.Second)
		v.NothingLeft(t)
	}, kit.Timeout(time.Second))
}

// The goal: with fences the new lease has a higher one, in one trip, also if its client's clock is
// an hour behind.
func TestAdopt_RaisesTheFence(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		slow := v.Shifted(t, -time.Hour)
		former := v.Hold(t, c, "k", lockpipe.WithFencing())
		keptOnAll(t, former)
		before := v.Sent()
		l := adopted(t, slow, former.Handle(), lockpipe.WithFencing())
		require.Equal(t, 3, v.Sent()-before)
		require.Greater(t, l.Fence(), former.Fence())
		keptOnAll(t, l)
		notAdopted(t, c, former.Handle(), lockpipe.ErrHeld)
		third := adopted(t, c, l.Handle(), lockpipe.WithFencing())
		require.Greater(t, third.Fence(), l.Fence())
		keptOnAll(t, third)
		plain := adopted(t, c, third.Handle())
		require.Zero(t, plain.Fence())
		kit.Release(t, plain)
		synctest.Wait() // on all nodes
		last := kit.Take(t, slow, "k", lockpipe.WithFencing())
		require.Greater(t, last.Fence(), third.Fence())
		kit.Release(t, last)
		v.OnlyCompanions(t)
	})
}

// The goal: one server has one vote, also if two names of the adopter lead to it.
func TestAdopt_OneServerHasOneVote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 3)
		v.WithRunIDs()
		c := v.Client(t)
		handle := kept(t, v, c, "k", keptFor)
		v.Del(1, "k") // so that a quorum of names needs both of node 0
		v.Del(2, "k")
		twice := v.Client(t, v.UnderNames([]int{0, 0, 2}))
		_, err := twice.Adopt(t.Context(), handle)
		require.Error(t, err)
		time.Sleep(time.Second)
		require.Contains(t, v.Value(0, "k"), " ", "it is put back")
	})
}

// The goal: a handle that can't be read, or is of another Prefix, is ErrInvalid, and nothing is
// sent. A handle has nothing of the configuration.
func TestAdopt_RefusesOtherHandles(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		handle := kept(t, v, c, "k", keptFor)
		other := v.Client(t, func(cfg *lockpipe.Config) { cfg.Prefix = "other:" })
		before := v.Sent()
		notAdopted(t, other, handle, lockpipe.ErrInvalid)
		for _, wrong := range []string{
			"", "lp1.", "lp2" + handle[3:], handle[1:], handle[:len(handle)-1], handle + "A", "k",
		} {
			notAdopted(t, c, wrong, lockpipe.ErrInvalid)
		}
		_, err := c.Adopt(t.Context(), handle, lockpipe.WithCount(1))
		require.ErrorIs(t, err, lockpipe.ErrInvalid)
		_, err = c.Adopt(nil, handle) //nolint:staticcheck // that is what is tested
		require.ErrorIs(t, err, lockpipe.ErrInvalid)
		require.Equal(t, before, v.Sent())
		require.Empty(t, new(lockpipe.Lease).Handle())
		require.Empty(t, (*lockpipe.Lease)(nil).Handle())
		kit.Release(t, adopted(t, c, handle))
	})
}

// The goal: of several who adopt the same keys at the same time one gets them, and the others are
// told that they are held, whichever nodes each reaches first, with a node down too.
func TestAdopt_OneOfSeveralWins(t *testing.T) {
	t.Parallel()
	for _, down := range []int{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			v := kit.NewFakeNodes(t, 5)
			v.Latency(3 * time.Millisecond)
			c := v.Client(t)
			var rivals []*lockpipe.Client
			for i := range 4 {
				order := []int{i, (i + 3) % 5, (i + 1) % 5, (i + 2) % 5, (i + 4) % 5}
				rivals = append(rivals, v.Client(t, v.InOrder(order...)))
			}
			for round := range 5 { // each node loses the keys once
				v.Heal(0, 1)
				l, err := c.TryAcquireAll(t.Context(), []string{"a", "b"})
				require.NoError(t, err)
				handle := l.Handle()
				require.NoError(t, l.Keep(t.Context(), 20*time.Second))
				time.Sleep(100 * time.Millisecond)
				for i := range down {
					v.Fail(i, kit.ReadOnly)
				}
				if down == 0 { // the arbiter is any of them, and must not decide with what it lost
					v.Del(round%5, "a")
					v.Del(round%5, "b")
				}
				var all []<-chan kit.Outcome
				for _, rival := range rivals {
					all = append(all, kit.Later(func() kit.Outcome {
						l, err := rival.Adopt(t.Context(), handle)
						return kit.Outcome{Lease: l, Err: err}
					}))
				}
				var won []*lockpipe.Lease
				for _, one := range all {
					o := <-one
					if o.Err == nil {
						won = append(won, o.Lease)
						continue
					}
					require.True(t, errors.Is(o.Err, lockpipe.ErrHeld) ||
						down > 0 && errors.Is(o.Err, lockpipe.ErrNoQuorum), o.Err)
				}
				if down == 0 {
					require.Len(t, won, 1)
				}
				require.LessOrEqual(t, len(won), 1)
				v.Heal(0, 1)
				time.Sleep(time.Second)
				if len(won) == 0 { // nobody is left with it, so it can be had
					won = append(won, adopted(t, c, handle))
				}
				kit.Lasting(t, won[0])
				kit.Release(t, won[0])
				time.Sleep(time.Second)
				for i := range v.Nodes { // those that were down may still keep the keys
					left := v.Value(i, "a") + v.Value(i, "b")
					require.True(t, left == "" || i < down && strings.Contains(left, " "), left)
				}
				if down > 0 {
					time.Sleep(20 * time.Second)
				}
				v.NothingLeft(t)
			}
		})
	}
}

// The goal: keys of several groups are adopted together or not at all.
func TestAdopt_OfSeveralGroups(t *testing.T) {
	t.Parallel()
	kit.InGroupBubble(t, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		keys := kit.OneOfEach(c, "k", "a", "b", "c")
		l := v.HoldAll(t, c, keys, lockpipe.WithFencing())
		handle := l.Handle()
		require.NoError(t, l.Keep(t.Context(), keptFor))
		synctest.Wait()
		for _, i := range kit.MembersOf("c")[1:] {
			v.Fail(i, kit.ReadOnly)
		}
		notAdopted(t, c, handle, lockpipe.ErrNoQuorum)
		v.Heal(kit.MembersOf("c")...)
		time.Sleep(time.Second)
		for _, key := range keys {
			v.OnlyOn(t, c, key, l.Token())
		}
		for _, i := range kit.MembersOf("a")[1:] {
			v.Del(i, keys[0])
		}
		notAdopted(t, c, handle, lockpipe.ErrExpired)
		synctest.Wait()
		require.Contains(t, v.Value(kit.MembersOf("b")[0], keys[1]), l.Token()+" ")

		l = v.HoldAll(t, c, kit.OneOfEach(c, "l", "a", "b", "c"), lockpipe.WithFencing())
		keptOnAll(t, l)
		next := adopted(t, c, l.Handle(), lockpipe.WithFencing())
		require.Greater(t, next.Fence(), l.Fence())
		v.HeldBy(t, c, next)
		kit.Release(t, next)
	})
}

// The goal: while a fleet moves, what clients of one step have kept can be adopted by those of the
// next one, once.
func TestAdopt_WhileTheFleetMoves(t *testing.T) {
	t.Parallel()
	const keptFor = 20 * time.Second
	for name, layouts := range map[string][2][]int{
		"all replaced":  {{0, 1, 2}, {3, 4, 5}},
		"one replaced":  {{0, 1, 2}, {0, 1, 3}},
		"three to five": {{0, 1, 2}, {0, 1, 2, 3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := kit.NewFakeNodes(t, 6)
				clients := steps(t, v, layouts[0], layouts[1])
				together := func(i int) []*lockpipe.Client { // that may be in use with it
					return clients[max(0, i-1):min(3, i+2)]
				}
				for _, step := range [][2]int{{0, 1}, {1, 1}, {1, 0}, {1, 2}, {2, 1}} {
					keeper, adopter := step[0], step[1]
					l := kit.Try(t, clients[keeper], "k")
					handle := l.Handle()
					require.NoError(t, l.Keep(t.Context(), keptFor))
					synctest.Wait()
					for _, c := range together(keeper) {
						_, err := c.TryAcquire(t.Context(), "k")
						require.ErrorIs(t, err, lockpipe.ErrHeld)
					}
					next := adopted(t, clients[adopter], handle)
					for _, c := range together(adopter) {
						_, err := c.Adopt(t.Context(), handle)
						require.Error(t, err)
					}
					kit.Lasting(t, next)
					require.NoError(t, next.Extend(t.Context(), kit.LongTTL))
					kit.Release(t, next)
					synctest.Wait() // on all nodes
					for _, c := range together(adopter) {
						if slices.Contains(together(keeper), c) {
							notAdopted(t, c, handle, lockpipe.ErrExpired)
						}
					}
					// Nodes that the adopter does not use still keep the key, for the TTL of those
					// that failed to adopt it.
					time.Sleep(kit.LongTTL)
					v.NothingLeft(t)
				}
			})
		})
	}
}

// The goal: an Adopt that takes free keys in the layout that never had them gets nothing without
// the other layout, and leaves nothing there for the next one to adopt.
func TestAdopt_FreeKeysDecideNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 6)
		clients := steps(t, v, []int{0, 1, 2}, []int{3, 4, 5})
		l := kit.Try(t, clients[0], "k")
		require.NoError(t, l.Keep(t.Context(), keptFor))
		synctest.Wait()
		v.Fail(0, kit.ReadOnly)
		v.Fail(1, kit.ReadOnly)
		notAdopted(t, clients[1], l.Handle(), lockpipe.ErrNoQuorum)
		synctest.Wait()
		notAdopted(t, clients[2], l.Handle(), lockpipe.ErrExpired)
		v.Heal(0, 1)
		time.Sleep(time.Second)
		for i := range v.Nodes {
			require.Equal(t, i < 3, strings.HasPrefix(v.Value(i, "k"), l.Token()+" "), i)
		}
		kit.Release(t, adopted(t, clients[0], l.Handle()))
		for _, c := range clients {
			notAdopted(t, c, l.Handle(), lockpipe.ErrExpired)
			synctest.Wait()
			v.NothingLeft(t)
		}
	})
}

// The goal: Peek says whose the keys are that are kept.
func TestKeep_PeekSaysWhose(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k")
		v.Fail(2, kit.ReadOnly)
		require.NoError(t, l.Keep(t.Context(), keptFor))
		all, err := c.Peek(t.Context(), []string{"k"})
		require.NoError(t, err)
		require.True(t, all[0].Held)
		require.GreaterOrEqual(t, all[0].Nodes, 2, "Peek waits for a quorum")
		require.Equal(t, "me", all[0].Owner)
		require.Equal(t, keptFor, all[0].Left.Round(time.Second))
	}, func(cfg *lockpipe.Config) { cfg.Owner = "me" })
}

// The goal: it is so on real servers too, with fences and many keys, and what failed is put back.
func TestAdopt_OnServers(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c, other := kit.Connected(t, kit.NewClient(t, nodes)), kit.Connected(t, kit.NewClient(t, nodes))
	for _, keys := range [][]string{{"k"}, kit.KeysOf("many", 300)} {
		l, err := c.TryAcquireAll(t.Context(), keys, lockpipe.WithFencing())
		require.NoError(t, err)
		notAdopted(t, other, l.Handle(), lockpipe.ErrHeld)
		require.NoError(t, l.Keep(t.Context(), keptFor))
		kit.OnQuorum(t, nodes, kit.Span(0, 3), keys[0], l.Token())
		kit.Do(t, nodes, 0, "DEL", kit.Prefix+keys[0])
		kit.Do(t, nodes, 1, "SET", kit.Prefix+keys[0], "another", "PX", "60000")
		notAdopted(t, other, l.Handle(), lockpipe.ErrHeld)
		kit.Do(t, nodes, 1, "DEL", kit.Prefix+keys[0])
		kit.Eventually(t, func() bool {
			_, err := other.Adopt(t.Context(), l.Handle())
			return errors.Is(err, lockpipe.ErrExpired)
		}, "what the failed call took is put back")
		kit.Eventually(t, func() bool { return kit.Value(t, nodes, 2, keys[0]) == l.Token() },
			"put back")
		for i := range 3 {
			kit.Do(t, nodes, i, "DEL", kit.Prefix+keys[0])
		}

		l, err = c.TryAcquireAll(t.Context(), kit.KeysOf("next-"+keys[0], len(keys)),
			lockpipe.WithFencing())
		require.NoError(t, err)
		require.NoError(t, l.Keep(t.Context(), keptFor))
		for i := range 3 {
			kit.Eventually(t, func() bool {
				raw, _ := kit.Do(t, nodes, i, "GET", kit.Prefix+l.Key()).(string)
				return strings.HasPrefix(raw, l.Token()+" ")
			}, "a node that was not needed for the quorum keeps it too")
		}
		next := adopted(t, other, l.Handle(), lockpipe.WithFencing())
		require.Greater(t, next.Fence(), l.Fence())
		require.NoError(t, next.Extend(t.Context(), kit.LongTTL))
		kit.OnQuorum(t, nodes, kit.Span(0, 3), next.Key(), next.Token())
		kit.Release(t, next)
		for i := range 3 {
			kit.Eventually(t, func() bool { return kit.Value(t, nodes, i, next.Key()) == "" },
				"released")
		}
	}
}

// kept is the handle of a lease on a key that every node keeps for d.
func kept(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client, key string, d time.Duration,
	opts ...lockpipe.Option,
) (handle string) {
	t.Helper()
	l := v.Hold(t, c, key, opts...)
	handle = l.Handle()
	require.NoError(t, l.Keep(t.Context(), d))
	synctest.Wait()
	for i := range v.Nodes {
		require.True(t, strings.HasPrefix(v.Value(i, key), l.Token()+" "), "node %d", i)
	}
	return handle
}

// steps are the clients of a fleet that moves: of the old layout, of both, and of the new one.
func steps(t *testing.T, v *kit.FakeNodes, old, next []int, change ...func(*lockpipe.Config),
) (clients []*lockpipe.Client) {
	t.Helper()
	groups := func(which []int) []lockpipe.Group {
		return []lockpipe.Group{{Name: "g", Nodes: v.Names(which...)}}
	}
	for _, step := range []func(*lockpipe.Config){
		func(cfg *lockpipe.Config) { cfg.Groups = groups(old) },
		func(cfg *lockpipe.Config) { cfg.Groups, cfg.Next = groups(old), groups(next) },
		func(cfg *lockpipe.Config) { cfg.Groups = groups(next) },
	} {
		clients = append(clients, v.Client(t, append(change, func(cfg *lockpipe.Config) {
			cfg.Nodes = nil
			step(cfg)
		})...))
	}
	return clients
}
