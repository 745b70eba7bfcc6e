package lockpipe_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

const keptFor = 10 * time.Minute

// kept is the handle of a lease on a key that every node keeps for d.
func (v *fakeNodes) kept(t *testing.T, c *lockpipe.Client, key string, d time.Duration,
	opts ...lockpipe.Option,
) (handle string) {
	t.Helper()
	l := v.hold(t, c, key, opts...)
	handle = l.Handle()
	require.NoError(t, l.Keep(t.Context(), d))
	synctest.Wait()
	for i := range v.nodes {
		require.True(t, strings.HasPrefix(v.value(i, key), l.Token()+" "), "node %d", i)
	}
	return handle
}

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

// inOrder has a client list the nodes in this order.
func (v *fakeNodes) inOrder(order ...int) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) {
		cfg.Nodes = nil
		for _, i := range order {
			cfg.Nodes = append(cfg.Nodes, v.urls[i])
		}
	}
}

// The goal: Keep waits for the nodes also if it is given a context that ends with its own lease.
func TestKeep_AContextOfItsOwnLeaseDoesNotCutItShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newFakeNodes(t, 3)
		v.latency(50 * time.Millisecond)
		c := v.client(t)
		require.NoError(t, c.Do(t.Context(), "do", func(ctx context.Context) error {
			return c.DoAll(ctx, []string{"in"}, func(ctx context.Context, l *lockpipe.Lease) error {
				ctx, cancel := context.WithTimeout(l.Bind(ctx), time.Minute)
				defer cancel()
				return l.Keep(ctx, keptFor)
			})
		}))
		l := take(t, c, "its context")
		require.NoError(t, l.Keep(l.Context(), keptFor))
		l = take(t, c, "around")
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
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		other := v.client(t, v.inOrder(2, 0, 1))
		for _, keys := range [][]string{{"k"}, keysOf("many", 3), keysOf("large", 300)} {
			former, err := c.TryAcquireAll(t.Context(), keys)
			require.NoError(t, err)
			handle := former.Handle()
			keptOnAll(t, former)
			over(t, former, lockpipe.ErrKept)
			for _, client := range []*lockpipe.Client{c, other} {
				_, err = client.TryAcquireAll(t.Context(), keys)
				require.ErrorIs(t, err, lockpipe.ErrHeld)
			}
			before := v.sent()
			l := adopted(t, other, handle)
			scripts := 1 + (len(keys)-1)/250
			require.Equal(t, 3*scripts, v.sent()-before)
			require.Equal(t, keys, l.Keys())
			require.NotEqual(t, former.Token(), l.Token())
			for i := range v.nodes {
				for _, key := range keys {
					require.Equal(t, l.Token(), v.get(i, key))
				}
			}
			require.NoError(t, l.Extend(t.Context(), longTTL))
			release(t, former)
			lasting(t, l)
			for _, client := range []*lockpipe.Client{c, other} {
				notAdopted(t, client, handle, lockpipe.ErrHeld)
			}
			lasting(t, l)
			release(t, l)
			v.nothingLeft(t)
			notAdopted(t, other, handle, lockpipe.ErrExpired)
		}
		v.nothingLeft(t)
	})
}

// The goal: without Keep no handle gets a key, whether its lease lasts, has expired or was
// released.
func TestAdopt_WithoutAMarkGetsNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		other := v.client(t)
		l := v.hold(t, c, "k", lockpipe.WithTTL(10*time.Second))
		before := v.sent()
		notAdopted(t, other, l.Handle(), lockpipe.ErrHeld)
		require.Equal(t, 3, v.sent()-before, "one trip, and nothing to put back")
		lasting(t, l)
		for i := range v.nodes {
			require.Equal(t, l.Token(), v.get(i, "k"))
		}
		require.NoError(t, l.Extend(t.Context(), 10*time.Second))
		time.Sleep(11 * time.Second)
		notAdopted(t, other, l.Handle(), lockpipe.ErrExpired)
		released := v.hold(t, c, "k")
		release(t, released)
		synctest.Wait() // on all nodes
		notAdopted(t, other, released.Handle(), lockpipe.ErrExpired)
		next := v.hold(t, c, "k")
		notAdopted(t, other, released.Handle(), lockpipe.ErrHeld)
		lasting(t, next)
		release(t, next)
		synctest.Wait()
		v.set(2, "k", next.Token()) // as where the release has not come yet
		notAdopted(t, other, released.Handle(), lockpipe.ErrExpired)
		v.del(2, "k")
		v.nothingLeft(t)
	})
}

// The goal: the lease is over before Keep has sent anything, whatever becomes of it.
func TestKeep_EndsTheLeaseFirst(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k", auto(10*time.Second, time.Hour)...)
		v.watch(func(int, string, []string) {
			require.Equal(t, lockpipe.ErrKept, context.Cause(l.Context()))
		})
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.Keep(ended, keptFor), context.Canceled)
		lasting(t, l) // the call made no sense
		v.fail(0, readOnly)
		v.fail(1, readOnly)
		err := l.Keep(t.Context(), keptFor)
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		require.ErrorContains(t, err, "1 of 3 nodes kept the keys, 2 needed")
		require.Equal(t, 1, quorumError(t, err).Granted)
		over(t, l, lockpipe.ErrKept)
		v.heal(0)
		require.NoError(t, l.Keep(t.Context(), keptFor), "it goes on in the background")
		require.Contains(t, v.value(0, "k"), " ")
		release(t, l)
		v.watch(nil)
	})
}

// The goal: Keep is repeated for a node that did not answer, while that has the token.
func TestKeep_IsRepeated(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k")
		v.fail(2, readOnly)
		require.NoError(t, l.Keep(t.Context(), keptFor))
		require.Equal(t, l.Token()+"C", v.value(2, "k"))
		v.heal(2)
		time.Sleep(time.Second)
		require.Equal(t, l.Token()+" C", v.value(2, "k"))
		require.InDelta(t, keptFor.Seconds(), v.ttl(2, "k").Seconds(), 2)
		time.Sleep(keptFor)
		v.nothingLeft(t)

		l = v.hold(t, c, "k", lockpipe.WithTTL(10*time.Second))
		v.fail(2, readOnly)
		require.NoError(t, l.Keep(t.Context(), keptFor))
		time.Sleep(11 * time.Second)
		v.heal(2)
		time.Sleep(time.Second)
		require.Empty(t, v.value(2, "k"), "it is not kept where the token had expired")
	})
}

// The goal: Keep says that the lease was lost if too few nodes have its keys.
func TestKeep_OfALeaseThatWasLost(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k")
		v.del(0, "k")
		v.set(1, "k", "another")
		require.ErrorIs(t, l.Keep(t.Context(), keptFor), lockpipe.ErrLost)
		over(t, l, lockpipe.ErrKept)
		synctest.Wait()
		require.Empty(t, v.value(0, "k"))
		require.Equal(t, "another", v.value(1, "k"))
		notAdopted(t, c, l.Handle(), lockpipe.ErrHeld)
		v.del(1, "k")
		notAdopted(t, c, l.Handle(), lockpipe.ErrExpired)
		synctest.Wait()
		require.Equal(t, l.Token()+" C", v.value(2, "k"), "put back")
	})
}

// The goal: where Keep has reached some nodes alone, Adopt takes the others too.
func TestAdopt_TakesWhatKeepHasMissed(t *testing.T) {
	t.Parallel()
	for missed := range 3 {
		inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
			other := v.client(t)
			l := v.hold(t, c, "k")
			for i := range 3 {
				if i != missed {
					v.fail(i, readOnly)
				}
			}
			require.ErrorIs(t, l.Keep(t.Context(), keptFor), lockpipe.ErrNoQuorum)
			closeSoon(c) // or it would repeat Keep
			v.heal(0, 1, 2)
			next := adopted(t, other, l.Handle())
			synctest.Wait()
			for i := range 3 {
				require.Equal(t, next.Token(), v.get(i, "k"))
			}
			release(t, next)
			v.nothingLeft(t)
		})
	}
}

// The goal: an Adopt that fails puts back what it took, with the time that is left, also on a node
// that can't answer meanwhile. Then another one gets it.
func TestAdopt_ThatFailedPutsBack(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		other := v.client(t, timeout(time.Second))
		handle := v.kept(t, c, "k", keptFor)
		before := v.value(2, "k")
		v.fail(0, readOnly)
		v.fail(1, readOnly)
		time.Sleep(time.Minute)
		notAdopted(t, other, handle, lockpipe.ErrNoQuorum)
		synctest.Wait()
		require.Equal(t, before, v.value(2, "k"))
		require.Equal(t, keptFor-time.Minute, v.ttl(2, "k"))
		v.intercept(2, func(command string, args []string) string {
			if command == "EVALSHA" && len(args) > 6 && args[6] == "1" { // what it puts back
				return failed(readOnly)
			}
			return ""
		})
		notAdopted(t, other, handle, lockpipe.ErrNoQuorum)
		synctest.Wait()
		require.NotContains(t, v.value(2, "k"), " ")
		v.intercept(2, nil)
		time.Sleep(time.Second)
		require.Equal(t, before, v.value(2, "k"))
		v.heal(0, 1)
		time.Sleep(5 * time.Second)
		release(t, adopted(t, c, handle))
		v.nothingLeft(t)
	})
}

// The goal: a release tells that the lease was lost, also if a node still keeps the key for the
// former holder.
func TestAdopt_ReleaseOfALeaseThatWasLost(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		handle := v.kept(t, c, "k", keptFor)
		kept := v.value(2, "k")
		l := adopted(t, c, handle)
		synctest.Wait()
		v.set(2, "k", kept)
		v.del(0, "k")
		require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrLost)
		v.nothingLeft(t)
	})
}

// The goal: the keys last as long as the longer of what Keep and Adopt asked for, and the new lease
// as long as Adopt did.
func TestAdopt_TheLongerEndStays(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		handle := v.kept(t, c, "long", keptFor)
		dying := v.client(t)
		l := adopted(t, dying, handle, lockpipe.WithTTL(10*time.Second))
		require.InDelta(t, 10, time.Until(l.Until()).Seconds(), 0.2)
		require.Equal(t, keptFor, v.ttl(0, "long"))
		require.NoError(t, l.Extend(t.Context(), 20*time.Second))
		require.Equal(t, keptFor, v.ttl(0, "long"))
		time.Sleep(20 * time.Second)
		over(t, l, lockpipe.ErrExpired)
		synctest.Wait()
		require.Empty(t, v.value(0, "long"), "what a lease that is over leaves is deleted")

		handle = v.kept(t, c, "short", 50*time.Millisecond, lockpipe.WithTTL(time.Second))
		l = adopted(t, dying, handle, lockpipe.WithTTL(10*time.Second))
		synctest.Wait() // on all nodes
		require.Equal(t, 10*time.Second, v.ttl(0, "short"))
		time.Sleep(9 * time.Second)
		lasting(t, l)
		release(t, l)
		v.nothingLeft(t)
	})
}

// The goal: what the former holder's client sends late changes nothing of the new lease: an
// extension, a release and a Keep that hung on a node.
func TestAdopt_LateCommandsOfTheFormerHolderChangeNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		former := v.client(t, timeout(time.Second))
		l := v.hold(t, former, "k")
		v.silence(0)
		require.NoError(t, l.Extend(t.Context(), longTTL)) // hangs on node 0
		require.NoError(t, l.Keep(t.Context(), keptFor))   // is behind it
		next := adopted(t, v.client(t, timeout(time.Second)), l.Handle())
		v.speak(0)
		time.Sleep(5 * time.Second)
		lasting(t, next)
		for i := range v.nodes {
			require.Equal(t, next.Token(), v.get(i, "k"), "node %d", i)
		}
		require.NoError(t, next.Extend(t.Context(), longTTL))
		release(t, next)
		time.Sleep(5 * time.Second)
		v.nothingLeft(t)
	}, timeout(time.Second))
}

// The goal: with fences the new lease has a higher one, in one trip, also if its client's clock is
// an hour behind.
func TestAdopt_RaisesTheFence(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		slow := v.shifted(t, -time.Hour)
		former := v.hold(t, c, "k", lockpipe.WithFencing())
		keptOnAll(t, former)
		before := v.sent()
		l := adopted(t, slow, former.Handle(), lockpipe.WithFencing())
		require.Equal(t, 3, v.sent()-before)
		require.Greater(t, l.Fence(), former.Fence())
		keptOnAll(t, l)
		notAdopted(t, c, former.Handle(), lockpipe.ErrHeld)
		third := adopted(t, c, l.Handle(), lockpipe.WithFencing())
		require.Greater(t, third.Fence(), l.Fence())
		keptOnAll(t, third)
		plain := adopted(t, c, third.Handle())
		require.Zero(t, plain.Fence())
		release(t, plain)
		synctest.Wait() // on all nodes
		last := take(t, slow, "k", lockpipe.WithFencing())
		require.Greater(t, last.Fence(), third.Fence())
		release(t, last)
		v.onlyCompanions(t)
	})
}

// The goal: one server has one vote, also if two names of the adopter lead to it.
func TestAdopt_OneServerHasOneVote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newFakeNodes(t, 3)
		v.withRunIDs()
		c := v.client(t)
		handle := v.kept(t, c, "k", keptFor)
		v.del(1, "k") // so that a quorum of names needs both of node 0
		v.del(2, "k")
		twice := v.client(t, v.underNames([]int{0, 0, 2}))
		_, err := twice.Adopt(t.Context(), handle)
		require.Error(t, err)
		time.Sleep(time.Second)
		require.Contains(t, v.value(0, "k"), " ", "it is put back")
	})
}

// The goal: a handle that can't be read, or is of another Prefix, is ErrInvalid, and nothing is
// sent. A handle has nothing of the configuration.
func TestAdopt_RefusesOtherHandles(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		handle := v.kept(t, c, "k", keptFor)
		other := v.client(t, func(cfg *lockpipe.Config) { cfg.Prefix = "other:" })
		before := v.sent()
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
		require.Equal(t, before, v.sent())
		require.Empty(t, new(lockpipe.Lease).Handle())
		require.Empty(t, (*lockpipe.Lease)(nil).Handle())
		release(t, adopted(t, c, handle))
	})
}

// The goal: of several who adopt the same keys at the same time one gets them, and the others are
// told that they are held, whichever nodes each reaches first, with a node down too.
func TestAdopt_OneOfSeveralWins(t *testing.T) {
	t.Parallel()
	for _, down := range []int{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			v := newFakeNodes(t, 5)
			v.latency(3 * time.Millisecond)
			c := v.client(t)
			var rivals []*lockpipe.Client
			for i := range 4 {
				order := []int{i, (i + 3) % 5, (i + 1) % 5, (i + 2) % 5, (i + 4) % 5}
				rivals = append(rivals, v.client(t, v.inOrder(order...)))
			}
			for round := range 5 { // each node loses the keys once
				v.heal(0, 1)
				l, err := c.TryAcquireAll(t.Context(), []string{"a", "b"})
				require.NoError(t, err)
				handle := l.Handle()
				require.NoError(t, l.Keep(t.Context(), 20*time.Second))
				time.Sleep(100 * time.Millisecond)
				for i := range down {
					v.fail(i, readOnly)
				}
				if down == 0 { // the arbiter is any of them, and must not decide with what it lost
					v.del(round%5, "a")
					v.del(round%5, "b")
				}
				var all []<-chan outcome
				for _, rival := range rivals {
					all = append(all, later(func() outcome {
						l, err := rival.Adopt(t.Context(), handle)
						return outcome{lease: l, err: err}
					}))
				}
				var won []*lockpipe.Lease
				for _, one := range all {
					o := <-one
					if o.err == nil {
						won = append(won, o.lease)
						continue
					}
					require.True(t, errors.Is(o.err, lockpipe.ErrHeld) ||
						down > 0 && errors.Is(o.err, lockpipe.ErrNoQuorum), o.err)
				}
				if down == 0 {
					require.Len(t, won, 1)
				}
				require.LessOrEqual(t, len(won), 1)
				v.heal(0, 1)
				time.Sleep(time.Second)
				if len(won) == 0 { // nobody is left with it, so it can be had
					won = append(won, adopted(t, c, handle))
				}
				lasting(t, won[0])
				release(t, won[0])
				time.Sleep(time.Second)
				for i := range v.nodes { // those that were down may still keep the keys
					left := v.value(i, "a") + v.value(i, "b")
					require.True(t, left == "" || i < down && strings.Contains(left, " "), left)
				}
				if down > 0 {
					time.Sleep(20 * time.Second)
				}
				v.nothingLeft(t)
			}
		})
	}
}

// The goal: keys of several groups are adopted together or not at all.
func TestAdopt_OfSeveralGroups(t *testing.T) {
	t.Parallel()
	inGroupBubble(t, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		keys := oneOfEach(c, "k", "a", "b", "c")
		l := v.holdAll(t, c, keys, lockpipe.WithFencing())
		handle := l.Handle()
		require.NoError(t, l.Keep(t.Context(), keptFor))
		synctest.Wait()
		for _, i := range membersOf("c")[1:] {
			v.fail(i, readOnly)
		}
		notAdopted(t, c, handle, lockpipe.ErrNoQuorum)
		v.heal(membersOf("c")...)
		time.Sleep(time.Second)
		for _, key := range keys {
			v.onlyOn(t, c, key, l.Token())
		}
		for _, i := range membersOf("a")[1:] {
			v.del(i, keys[0])
		}
		notAdopted(t, c, handle, lockpipe.ErrExpired)
		synctest.Wait()
		require.Contains(t, v.value(membersOf("b")[0], keys[1]), l.Token()+" ")

		l = v.holdAll(t, c, oneOfEach(c, "l", "a", "b", "c"), lockpipe.WithFencing())
		keptOnAll(t, l)
		next := adopted(t, c, l.Handle(), lockpipe.WithFencing())
		require.Greater(t, next.Fence(), l.Fence())
		v.heldBy(t, c, next)
		release(t, next)
	})
}

// steps are the clients of a fleet that moves: of the old layout, of both, and of the new one.
func (v *fakeNodes) steps(t *testing.T, old, next []int, change ...func(*lockpipe.Config),
) (clients []*lockpipe.Client) {
	t.Helper()
	groups := func(which []int) []lockpipe.Group {
		return []lockpipe.Group{{Name: "g", Nodes: v.names(which...)}}
	}
	for _, step := range []func(*lockpipe.Config){
		func(cfg *lockpipe.Config) { cfg.Groups = groups(old) },
		func(cfg *lockpipe.Config) { cfg.Groups, cfg.Next = groups(old), groups(next) },
		func(cfg *lockpipe.Config) { cfg.Groups = groups(next) },
	} {
		clients = append(clients, v.client(t, append(change, func(cfg *lockpipe.Config) {
			cfg.Nodes = nil
			step(cfg)
		})...))
	}
	return clients
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
				v := newFakeNodes(t, 6)
				clients := v.steps(t, layouts[0], layouts[1])
				together := func(i int) []*lockpipe.Client { // that may be in use with it
					return clients[max(0, i-1):min(3, i+2)]
				}
				for _, step := range [][2]int{{0, 1}, {1, 1}, {1, 0}, {1, 2}, {2, 1}} {
					keeper, adopter := step[0], step[1]
					l := try(t, clients[keeper], "k")
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
					lasting(t, next)
					require.NoError(t, next.Extend(t.Context(), longTTL))
					release(t, next)
					synctest.Wait() // on all nodes
					for _, c := range together(adopter) {
						if slices.Contains(together(keeper), c) {
							notAdopted(t, c, handle, lockpipe.ErrExpired)
						}
					}
					// Nodes that the adopter does not use still keep the key, for the TTL of those
					// that failed to adopt it.
					time.Sleep(longTTL)
					v.nothingLeft(t)
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
		v := newFakeNodes(t, 6)
		clients := v.steps(t, []int{0, 1, 2}, []int{3, 4, 5})
		l := try(t, clients[0], "k")
		require.NoError(t, l.Keep(t.Context(), keptFor))
		synctest.Wait()
		v.fail(0, readOnly)
		v.fail(1, readOnly)
		notAdopted(t, clients[1], l.Handle(), lockpipe.ErrNoQuorum)
		synctest.Wait()
		notAdopted(t, clients[2], l.Handle(), lockpipe.ErrExpired)
		v.heal(0, 1)
		time.Sleep(time.Second)
		for i := range v.nodes {
			require.Equal(t, i < 3, strings.HasPrefix(v.value(i, "k"), l.Token()+" "), i)
		}
		release(t, adopted(t, clients[0], l.Handle()))
		for _, c := range clients {
			notAdopted(t, c, l.Handle(), lockpipe.ErrExpired)
			synctest.Wait()
			v.nothingLeft(t)
		}
	})
}

// The goal: Peek says whose the keys are that are kept.
func TestKeep_PeekSaysWhose(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k")
		v.fail(2, readOnly)
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
	c, other := connected(t, newClient(t, nodes)), connected(t, newClient(t, nodes))
	for _, keys := range [][]string{{"k"}, keysOf("many", 300)} {
		l, err := c.TryAcquireAll(t.Context(), keys, lockpipe.WithFencing())
		require.NoError(t, err)
		notAdopted(t, other, l.Handle(), lockpipe.ErrHeld)
		require.NoError(t, l.Keep(t.Context(), keptFor))
		onQuorum(t, nodes, span(0, 3), keys[0], l.Token())
		do(t, nodes, 0, "DEL", prefix+keys[0])
		do(t, nodes, 1, "SET", prefix+keys[0], "another", "PX", "60000")
		notAdopted(t, other, l.Handle(), lockpipe.ErrHeld)
		do(t, nodes, 1, "DEL", prefix+keys[0])
		eventually(t, func() bool {
			_, err := other.Adopt(t.Context(), l.Handle())
			return errors.Is(err, lockpipe.ErrExpired)
		}, "what the failed call took is put back")
		eventually(t, func() bool { return value(t, nodes, 2, keys[0]) == l.Token() }, "put back")
		for i := range 3 {
			do(t, nodes, i, "DEL", prefix+keys[0])
		}

		l, err = c.TryAcquireAll(t.Context(), keysOf("next-"+keys[0], len(keys)),
			lockpipe.WithFencing())
		require.NoError(t, err)
		require.NoError(t, l.Keep(t.Context(), keptFor))
		for i := range 3 {
			eventually(t, func() bool {
				raw, _ := do(t, nodes, i, "GET", prefix+l.Key()).(string)
				return strings.HasPrefix(raw, l.Token()+" ")
			}, "a node that was not needed for the quorum keeps it too")
		}
		next := adopted(t, other, l.Handle(), lockpipe.WithFencing())
		require.Greater(t, next.Fence(), l.Fence())
		require.NoError(t, next.Extend(t.Context(), longTTL))
		onQuorum(t, nodes, span(0, 3), next.Key(), next.Token())
		release(t, next)
		for i := range 3 {
			eventually(t, func() bool { return value(t, nodes, i, next.Key()) == "" }, "released")
		}
	}
}
