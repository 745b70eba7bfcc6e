package lockpipe_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// The goal: a held key that turned into another type on a minority is like one that another took
// there: extension and release succeed.
func TestExtend_AKeyTurnedIntoAnotherTypeOnAMinority(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := connected(t, newClient(t, nodes))
	l := try(t, c, "k")
	onEvery(t, nodes, span(0, 3), "k", l.Token())
	do(t, nodes, 0, "DEL", prefix+"k")
	do(t, nodes, 0, "RPUSH", prefix+"k", "v")
	require.NoError(t, l.Extend(t.Context(), longTTL))
	require.NoError(t, l.Release(t.Context()))
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes, 1, 2)
	require.Equal(t, "list", do(t, nodes, 0, "TYPE", prefix+"k"))
}

// The goal: nodes that refuse writes confirm no extension, not even one that asks for less than the
// keys have left.
func TestExtend_NodesThatRefuseWritesConfirmNothing(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := connected(t, newClient(t, nodes))
	l := try(t, c, "k", lockpipe.WithTTL(longTTL))
	onEvery(t, nodes, span(0, 3), "k", l.Token())
	for i := range 3 {
		do(t, nodes, i, "CONFIG", "SET", "min-replicas-to-write", "5")
	}
	require.ErrorIs(t, l.Extend(t.Context(), longTTL/2), lockpipe.ErrNoQuorum)
	for i := range 3 {
		do(t, nodes, i, "CONFIG", "SET", "min-replicas-to-write", "0")
	}
	require.NoError(t, l.Extend(t.Context(), longTTL/2))
	require.NoError(t, l.Release(t.Context()))
}

// The goal: an extension gives a restarted node the keys again, and its own vote is not needed for
// that.
func TestExtend_RefillsANodeThatRestarted(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := connected(t, newClient(t, nodes))
	l, err := c.TryAcquireAll(t.Context(), []string{"a", "b"})
	require.NoError(t, err)
	onEvery(t, nodes, span(0, 3), "a", l.Token())
	require.NoError(t, nodes.Restart(2))
	require.NoError(t, l.Extend(t.Context(), longTTL))
	lasting(t, l)
	require.NoError(t, l.Release(t.Context()))
	nothingLeft(t, nodes)
}

// The goal: Extend with a TTL that makes no sense is ErrInvalid with the value. Nothing is sent,
// and the lease stays as it is.
func TestExtend_ATTLThatMakesNoSenseChangesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k")
		before, until := v.sent(), l.Until()
		for value, ttl := range map[string]time.Duration{
			"0s": 0, "-1s": -time.Second, "1ns": 1, "9.999999ms": 10*time.Millisecond - 1,
			"1m0.001s": time.Minute + time.Millisecond,
		} {
			err := l.Extend(t.Context(), ttl)
			require.ErrorIs(t, err, lockpipe.ErrInvalid, value)
			require.ErrorContains(t, err, "Extend("+value+")")
		}
		require.Equal(t, before, v.sent(), "something was sent")
		require.Equal(t, until, l.Until())
		lasting(t, l)
		require.NoError(t, l.Extend(t.Context(), time.Minute), "MaxTTL itself")
	})
}

// The goal: Extend moves the end of the lease later and earlier, and that of the keys on every node
// later only, without ever deleting a key.
func TestExtend_MovesTheEndOnEveryNode(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l, err := c.TryAcquireAll(t.Context(), []string{"a", "b"}, lockpipe.WithTTL(20*time.Second))
		require.NoError(t, err)
		latest := time.Now().Add(20 * time.Second)
		synctest.Wait()
		v.watch(func(i int, command string, _ []string) {
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
			lasting(t, l)
			require.Equal(t, until, l.Until())
			synctest.Wait()
			for _, key := range []string{"a", "b"} {
				for i := range v.nodes {
					require.Equal(t, l.Token(), v.get(i, key), "node %d", i)
					require.Equal(t, time.Until(latest), v.ttl(i, key), "node %d", i)
				}
			}
		}
		v.watch(nil)
		release(t, l)
		v.nothingLeft(t)
	})
}

// The goal: a lease that was shortened ends at its new end, and then no node keeps its keys.
func TestExtend_AShortenedLeaseEndsEarlier(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k")
		ctx := l.Context()
		begin := time.Now()
		require.NoError(t, l.Extend(t.Context(), time.Second))
		time.Sleep(time.Until(l.Until()) - 1) // it is released as soon as it has ended
		require.Greater(t, v.ttl(0, "k"), longTTL-2*time.Second)
		<-ctx.Done()
		require.Equal(t, 988*time.Millisecond, time.Since(begin))
		over(t, l, lockpipe.ErrExpired)
		time.Sleep(12 * time.Millisecond)
		v.nothingLeft(t)
	})
}

// The goal: Extend sets the keys again on a minority that lost them, and returns nil. Keys that
// others have there stay theirs.
func TestExtend_RefillsAMinority(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 5)
	c := connected(t, newClient(t, nodes))
	l, err := c.TryAcquireAll(t.Context(), []string{"a", "b", "c"})
	require.NoError(t, err)
	for _, k := range l.Keys() {
		onEvery(t, nodes, span(0, 5), k, l.Token())
	}
	do(t, nodes, 0, "DEL", prefix+"b")
	do(t, nodes, 1, "DEL", prefix+"a", prefix+"b", prefix+"c")
	require.NoError(t, l.Extend(t.Context(), longTTL))
	lasting(t, l)
	for _, k := range l.Keys() {
		onEvery(t, nodes, span(0, 5), k, l.Token())
	}
	do(t, nodes, 0, "SET", prefix+"b", "another")
	do(t, nodes, 1, "SET", prefix+"c", "another")
	require.NoError(t, l.Extend(t.Context(), longTTL))
	lasting(t, l)
	require.NoError(t, l.Release(t.Context()))
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes, 2, 3, 4)
	nothingOfOurs(t, nodes, []int{0}, "b")
	nothingOfOurs(t, nodes, []int{1}, "c")
}

// The goal: a key that an extension refills lasts there as long as the extension, and not as the
// acquire asked for.
func TestExtend_ARefillLastsAsLongAsTheExtension(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k", lockpipe.WithTTL(10*time.Second))
		v.del(0, "k")
		time.Sleep(time.Second)
		require.NoError(t, l.Extend(t.Context(), 20*time.Second))
		synctest.Wait()
		for i := range v.nodes {
			require.Equal(t, l.Token(), v.get(i, "k"))
			require.Equal(t, 20*time.Second, v.ttl(i, "k"), "node %d", i)
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
			c := connected(t, newClient(t, nodes))
			for _, keys := range [][]string{
				{"k"}, {"k", "l", "m"}, append(keysOf("more", 600), "k"),
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
	onEvery(t, nodes, span(0, 5), "k", l.Token())
	for i := range 3 {
		do(t, nodes, i, "DEL", prefix+"k")
		switch {
		case i >= foreign:
		case i == 0: // without an end
			do(t, nodes, i, "SET", prefix+"k", "another")
		default:
			do(t, nodes, i, "SET", prefix+"k", "another", "PX", "600000")
		}
	}
	err = l.Extend(t.Context(), longTTL)
	require.ErrorIs(t, err, lockpipe.ErrLost)
	require.NotErrorIs(t, err, lockpipe.ErrHeld)
	require.NotErrorIs(t, err, lockpipe.ErrNoQuorum)
	over(t, l, lockpipe.ErrLost)
	require.ErrorIs(t, l.Extend(t.Context(), longTTL), lockpipe.ErrLost)
	require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrLost)
	caughtUp(t, c, nodes)
	nothingOfOurs(t, nodes, span(0, foreign), "k")
	for i := foreign; i < 5; i++ {
		nothingLeft(t, nodes, i)
	}
	for i := range foreign {
		ttl, _ := do(t, nodes, i, "PTTL", prefix+"k").(int64)
		require.Equal(t, i == 0, ttl == -1, "node %d: %d", i, ttl)
		require.True(t, ttl == -1 || ttl > 500_000, "node %d: %d", i, ttl)
		do(t, nodes, i, "DEL", prefix+"k")
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
			c := connected(t, newClient(t, nodes))
			l := try(t, c, "k")
			onEvery(t, nodes, span(0, n), "k", l.Token())
			for i := range n / 2 {
				do(t, nodes, i, "DEL", prefix+"k")
			}
			require.ErrorIs(t, l.Extend(t.Context(), longTTL), lockpipe.ErrNoQuorum)
			lasting(t, l)
			onEvery(t, nodes, span(0, n), "k", l.Token())
			require.NoError(t, l.Extend(t.Context(), longTTL))
			require.NoError(t, l.Release(t.Context()))
			nothingLeft(t, nodes)
		})
	}
}

// The goal: a majority that forgets all its keys ends a lease, and the next extension reports it.
// The release leaves nothing.
func TestExtend_AFlushedMajorityIsALoss(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := connected(t, newClient(t, nodes))
	l := try(t, c, "k")
	onEvery(t, nodes, span(0, 3), "k", l.Token())
	require.NoError(t, nodes.Flush(0))
	require.NoError(t, nodes.Flush(1))
	err := l.Extend(t.Context(), longTTL)
	// By whether the nodes still vote.
	require.True(t, anyOf(err, lockpipe.ErrLost, lockpipe.ErrNoQuorum), "%v", err)
	_ = l.Release(t.Context())
	// The others are quarantined; what an extension has put there ends with its TTL.
	nothingLeft(t, nodes, 2)
}

// The goal: a shorter extension that was not confirmed does not leave the keys of the others for
// their longer TTL.
func TestExtend_AnUnconfirmedShorteningIsReleasedAtItsEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k", lockpipe.WithTTL(50*time.Second))
		begin := time.Now()
		v.fail(0, readOnly)
		v.fail(1, readOnly)
		require.ErrorIs(t, l.Extend(t.Context(), 500*time.Millisecond), lockpipe.ErrNoQuorum)
		v.heal(0, 1)
		time.Sleep(time.Until(l.Until()) - 1) // it is released as soon as it has ended
		require.Equal(t, l.Token(), v.get(0, "k"))
		require.Greater(t, v.ttl(0, "k"), 49*time.Second)
		<-l.Done()
		require.ErrorIs(t, l.Err(), lockpipe.ErrExpired)
		require.Equal(t, 493*time.Millisecond, time.Since(begin))
		time.Sleep(time.Second)
		v.nothingLeft(t)
	})
}

// The goal: an extension that failed for the caller, but took effect on nodes, does not keep the
// keys for its TTL when the lease has run out.
func TestExtend_AnUnconfirmedExtensionIsReleasedAtTheEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k", lockpipe.WithTTL(1500*time.Millisecond))
		v.silence(0, 1)
		require.ErrorIs(t, l.Extend(t.Context(), 50*time.Second), lockpipe.ErrNoQuorum)
		v.speak(0, 1)
		for i := range v.nodes {
			require.Greater(t, v.ttl(i, "k"), 49*time.Second, "node %d did not do it", i)
		}
		<-l.Done()
		require.ErrorIs(t, l.Err(), lockpipe.ErrExpired)
		time.Sleep(time.Second)
		v.nothingLeft(t)
	}, timeout(100*time.Millisecond))
}
