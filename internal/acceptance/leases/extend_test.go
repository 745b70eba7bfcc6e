package leases

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// The goal: a held key that turned into another type on a minority is like one that another took
// there: extension and release succeed.
func TestExtend_AKeyTurnedIntoAnotherTypeOnAMinority(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	l := kit.Try(t, c, "k")
	kit.OnEvery(t, nodes, kit.Span(0, 3), "k", l.Token())
	kit.Do(t, nodes, 0, "DEL", kit.Prefix+"k")
	kit.Do(t, nodes, 0, "RPUSH", kit.Prefix+"k", "v")
	require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
	require.NoError(t, l.Release(t.Context()))
	kit.CaughtUp(t, c, nodes)
	kit.NothingLeft(t, nodes, 1, 2)
	require.Equal(t, "list", kit.Do(t, nodes, 0, "TYPE", kit.Prefix+"k"))
}

// The goal: nodes that refuse writes confirm no extension, not even one that asks for less than the
// keys have left.
func TestExtend_NodesThatRefuseWritesConfirmNothing(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	l := kit.Try(t, c, "k", lockpipe.WithTTL(kit.LongTTL))
	kit.OnEvery(t, nodes, kit.Span(0, 3), "k", l.Token())
	for i := range 3 {
		kit.Do(t, nodes, i, "CONFIG", "SET", "min-replicas-to-write", "5")
	}
	require.ErrorIs(t, l.Extend(t.Context(), kit.LongTTL/2), lockpipe.ErrNoQuorum)
	for i := range 3 {
		kit.Do(t, nodes, i, "CONFIG", "SET", "min-replicas-to-write", "0")
	}
	require.NoError(t, l.Extend(t.Context(), kit.LongTTL/2))
	require.NoError(t, l.Release(t.Context()))
}

// The goal: an extension gives a restarted node the keys again, and its own vote is not needed for
// that.
func TestExtend_RefillsANodeThatRestarted(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	l, err := c.TryAcquireAll(t.Context(), []string{"a", "b"})
	require.NoError(t, err)
	kit.OnEvery(t, nodes, kit.Span(0, 3), "a", l.Token())
	require.NoError(t, nodes.Restart(2))
	require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
	kit.Lasting(t, l)
	require.NoError(t, l.Release(t.Context()))
	kit.NothingLeft(t, nodes)
}

// The goal: Extend with a TTL that makes no sense is ErrInvalid with the value. Nothing is sent,
// and the lease stays as it is.
func TestExtend_ATTLThatMakesNoSenseChangesNothing(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k")
		before, until := v.Sent(), l.Until()
		for value, ttl := range map[string]time.Duration{
			"0s": 0, "-1s": -time.Second, "1ns": 1, "9.999999ms": 10*time.Millisecond - 1,
			"1m0.001s": time.Minute + time.Millisecond,
		} {
			err := l.Extend(t.Context(), ttl)
			require.ErrorIs(t, err, lockpipe.ErrInvalid, value)
			require.ErrorContains(t, err, "Extend("+value+")")
		}
		require.Equal(t, before, v.Sent(), "something was sent")
		require.Equal(t, until, l.Until())
		kit.Lasting(t, l)
		require.NoError(t, l.Extend(t.Context(), time.Minute), "MaxTTL itself")
	})
}

// The goal: Extend moves the end of the lease later and earlier, and that of the keys on every node
// later only, without ever deleting a key.
func TestExtend_MovesTheEndOnEveryNode(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l, err := c.TryAcquireAll(t.Context(), []string{"a", "b"}, lockpipe.WithTTL(20*time.Second))
		require.NoError(t, err)
		latest := time.Now().Add(20 * time.Second)
		synctest.Wait()
		v.Watch(func(i int, command string, _ []string) {
			if command == "DEL" {
				t.Error("node", i, "deletes")
			}
		})
		for _, ttl := range []time.Duration{
			30*time.Second + 900*time.Microsecond, 15 * time.Second, 50 * time.Second,
			12 * time.Second,
		} {
			time.Sleep(time.Second)
			sent := ttl.Truncate(time.Millisecond)
			until := time.Now().Add(sent - sent/100 - 2*time.Millisecond)
			if end := time.Now().Add(sent); end.After(latest) {
				latest = end
			}
			require.NoError(t, l.Extend(t.Context(), ttl))
			kit.Lasting(t, l)
			require.Equal(t, until, l.Until())
			synctest.Wait()
			for _, key := range []string{"a", "b"} {
				for i := range v.Nodes {
					require.Equal(t, l.Token(), v.Get(i, key), "node %d", i)
					require.Equal(t, time.Until(latest), v.Ttl(i, key), "node %d", i)
				}
			}
		}
		v.Watch(nil)
		kit.Release(t, l)
		v.NothingLeft(t)
	})
}

// The goal: a lease that was shortened ends at its new end, and then no node keeps its keys.
func TestExtend_AShortenedLeaseEndsEarlier(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k")
		ctx := l.Context()
		begin := time.Now()
		require.NoError(t, l.Extend(t.Context(), time.Second))
		time.Sleep(time.Until(l.Until()) - 1) // it is released as soon as it has ended
		require.Greater(t, v.Ttl(0, "k"), kit.LongTTL-2*time.Second)
		<-ctx.Done()
		require.Equal(t, 988*time.Millisecond, time.Since(begin))
		kit.Over(t, l, lockpipe.ErrExpired)
		time.Sleep(12 * time.Millisecond)
		v.NothingLeft(t)
	})
}

// The goal: Extend sets the keys again on a minority that lost them, and returns nil. Keys that
// others have there stay theirs.
func TestExtend_RefillsAMinority(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 5)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	l, err := c.TryAcquireAll(t.Context(), []string{"a", "b", "c"})
	require.NoError(t, err)
	for _, k := range l.Keys() {
		kit.OnEvery(t, nodes, kit.Span(0, 5), k, l.Token())
	}
	kit.Do(t, nodes, 0, "DEL", kit.Prefix+"b")
	kit.Do(t, nodes, 1, "DEL", kit.Prefix+"a", kit.Prefix+"b", kit.Prefix+"c")
	require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
	kit.Lasting(t, l)
	for _, k := range l.Keys() {
		kit.OnEvery(t, nodes, kit.Span(0, 5), k, l.Token())
	}
	kit.Do(t, nodes, 0, "SET", kit.Prefix+"b", "another")
	kit.Do(t, nodes, 1, "SET", kit.Prefix+"c", "another")
	require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
	kit.Lasting(t, l)
	require.NoError(t, l.Release(t.Context()))
	kit.CaughtUp(t, c, nodes)
	kit.NothingLeft(t, nodes, 2, 3, 4)
	kit.NothingOfOurs(t, nodes, []int{0}, "b")
	kit.NothingOfOurs(t, nodes, []int{1}, "c")
}

// The goal: a key that an extension refills lasts there as long as the extension, and not as the
// acquire asked for.
func TestExtend_ARefillLastsAsLongAsTheExtension(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k", lockpipe.WithTTL(10*time.Second))
		v.Del(0, "k")
		time.Sleep(time.Second)
		require.NoError(t, l.Extend(t.Context(), 20*time.Second))
		synctest.Wait()
		for i := range v.Nodes {
			require.Equal(t, l.Token(), v.Get(i, "k"))
			require.Equal(t, 20*time.Second, v.Ttl(i, "k"), "node %d", i)
		}
	})
}

// The goal: a lease whose keys are gone from a majority is lost. Extend and the lease's context
// report it. What others have there stays theirs, and nothing of the lease is left.
func TestExtend_FindsALeaseLost(t *testing.T) {
	t.Parallel()
	for foreign := range 4 {
		t.Run(fmt.Sprintf("%d taken by another", foreign), func(t *testing.T) {
			t.Parallel()
			nodes := servertest.Start(t, 5)
			c := kit.Connected(t, kit.NewClient(t, nodes))
			for _, keys := range [][]string{
				{"k"}, {"k", "l", "m"}, append(kit.KeysOf("more", 600), "k"),
			} {
				extendFindsLost(t, nodes, c, keys, foreign)
			}
		})
	}
}

// extendFindsLost takes k away from a lease of keys, on three of five nodes. Another has it then on
// the first few of them, as foreign says, until extendFindsLost returns.
func extendFindsLost(t *testing.T, nodes *lockpipetest.Nodes, c *lockpipe.Client, keys []string,
	foreign int,
) {
	t.Helper()
	l, err := c.TryAcquireAll(t.Context(), keys)
	require.NoError(t, err)
	kit.OnEvery(t, nodes, kit.Span(0, 5), "k", l.Token())
	for i := range 3 {
		kit.Do(t, nodes, i, "DEL", kit.Prefix+"k")
		switch {
		case i >= foreign:
		case i == 0: // without an end
			kit.Do(t, nodes, i, "SET", kit.Prefix+"k", "another")
		default:
			kit.Do(t, nodes, i, "SET", kit.Prefix+"k", "another", "PX", "600000")
		}
	}
	err = l.Extend(t.Context(), kit.LongTTL)
	require.ErrorIs(t, err, lockpipe.ErrLost)
	require.NotErrorIs(t, err, lockpipe.ErrHeld)
	require.NotErrorIs(t, err, lockpipe.ErrNoQuorum)
	kit.Over(t, l, lockpipe.ErrLost)
	require.ErrorIs(t, l.Extend(t.Context(), kit.LongTTL), lockpipe.ErrLost)
	require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrLost)
	kit.CaughtUp(t, c, nodes)
	kit.NothingOfOurs(t, nodes, kit.Span(0, foreign), "k")
	for i := foreign; i < 5; i++ {
		kit.NothingLeft(t, nodes, i)
	}
	for i := range foreign {
		ttl, _ := kit.Do(t, nodes, i, "PTTL", kit.Prefix+"k").(int64)
		require.Equal(t, i == 0, ttl == -1, "node %d: %d", i, ttl)
		require.True(t, ttl == -1 || ttl > 500_000, "node %d: %d", i, ttl)
		kit.Do(t, nodes, i, "DEL", kit.Prefix+"k")
	}
}

// The goal: half of an even number of nodes may lose the keys, and the lease is not lost: nobody
// else can have a quorum. The extension that finds it is not confirmed, and the next one is.
func TestExtend_HalfOfAnEvenNumberOfNodesIsNoLoss(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			nodes := servertest.Start(t, n)
			c := kit.Connected(t, kit.NewClient(t, nodes))
			l := kit.Try(t, c, "k")
			kit.OnEvery(t, nodes, kit.Span(0, n), "k", l.Token())
			for i := range n / 2 {
				kit.Do(t, nodes, i, "DEL", kit.Prefix+"k")
			}
			require.ErrorIs(t, l.Extend(t.Context(), kit.LongTTL), lockpipe.ErrNoQuorum)
			kit.Lasting(t, l)
			kit.OnEvery(t, nodes, kit.Span(0, n), "k", l.Token())
			require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
			require.NoError(t, l.Release(t.Context()))
			kit.NothingLeft(t, nodes)
		})
	}
}

// The goal: a majority that forgets all its keys ends a lease, and the next extension reports it.
// The release leaves nothing.
func TestExtend_AFlushedMajorityIsALoss(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	l := kit.Try(t, c, "k")
	kit.OnEvery(t, nodes, kit.Span(0, 3), "k", l.Token())
	require.NoError(t, nodes.Flush(0))
	require.NoError(t, nodes.Flush(1))
	err := l.Extend(t.Context(), kit.LongTTL)
	// By whether the nodes still vote.
	require.True(t, kit.AnyOf(err, lockpipe.ErrLost, lockpipe.ErrNoQuorum), "%v", err)
	_ = l.Release(t.Context())
	// The others are quarantined; what an extension has put there ends with its TTL.
	kit.NothingLeft(t, nodes, 2)
}

// The goal: a shorter extension that was not confirmed does not leave the keys of the others for
// their longer TTL.
func TestExtend_AnUnconfirmedShorteningIsReleasedAtItsEnd(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k", lockpipe.WithTTL(50*time.Second))
		begin := time.Now()
		v.Fail(0, kit.ReadOnly)
		v.Fail(1, kit.ReadOnly)
		require.ErrorIs(t, l.Extend(t.Context(), 500*time.Millisecond), lockpipe.ErrNoQuorum)
		v.Heal(0, 1)
		time.Sleep(time.Until(l.Until()) - 1) // it is released as soon as it has ended
		require.Equal(t, l.Token(), v.Get(0, "k"))
		require.Greater(t, v.Ttl(0, "k"), 49*time.Second)
		<-l.Done()
		require.ErrorIs(t, l.Err(), lockpipe.ErrExpired)
		require.Equal(t, 493*time.Millisecond, time.Since(begin))
		time.Sleep(time.Second)
		v.NothingLeft(t)
	})
}

// The goal: an extension that failed for the caller, but took effect on nodes, does not keep the
// keys for its TTL when the lease has run out.
func TestExtend_AnUnconfirmedExtensionIsReleasedAtTheEnd(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k", lockpipe.WithTTL(1500*time.Millisecond))
		v.Silence(0, 1)
		require.ErrorIs(t, l.Extend(t.Context(), 50*time.Second), lockpipe.ErrNoQuorum)
		v.Speak(0, 1)
		for i := range v.Nodes {
			require.Greater(t, v.Ttl(i, "k"), 49*time.Second, "node %d did not do it", i)
		}
		<-l.Done()
		require.ErrorIs(t, l.Err(), lockpipe.ErrExpired)
		time.Sleep(time.Second)
		v.NothingLeft(t)
	}, kit.Timeout(100*time.Millisecond))
}
