package nodes

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

func ownedBy(name string) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) { cfg.Owner = name }
}

// The goal: each lock on the nodes names its owner, host and process if nobody said otherwise, and
// is released with the name. NoOwner leaves the random bits alone.
func TestOwner_IsKeptWithEachLock(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	host, err := os.Hostname()
	require.NoError(t, err)
	for name, suffix := range map[string]string{
		"":               fmt.Sprintf("@%s:%d", host, os.Getpid()),
		"orders/eu-1":    "@orders/eu-1",
		lockpipe.NoOwner: "",
	} {
		c := kit.Connected(t, kit.NewClient(t, nodes, ownedBy(name)))
		single := kit.Try(t, c, "a")
		several, err := c.TryAcquireAll(t.Context(), []string{"b", "c"}, lockpipe.WithFencing())
		require.NoError(t, err)
		for _, l := range []*lockpipe.Lease{single, several} {
			require.Len(t, l.Token(), 27+len(suffix))
			require.Equal(t, suffix, l.Token()[27:])
			for _, key := range l.Keys() {
				require.Equal(t, l.Token(), kit.Value(t, nodes, 0, key))
			}
			require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
			kit.Release(t, l)
		}
		kit.NothingLeft(t, nodes, 0)
	}
}

// The goal: a call that waited until its ctx ended says who holds the key: another client, this one
// by the nodes, or this one by its own queue. It does not guess.
func TestOwner_IsInTheErrorOfACallThatWaited(t *testing.T) {
	t.Parallel()
	waitedOut := func(t *testing.T, c *lockpipe.Client) (owner, text string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		held, err := kit.HeldError(t, kit.QueueFor(ctx, c, []string{"k"}))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return held.Owner, err.Error()
	}
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		other := v.Client(t, ownedBy("web-3:4711"))
		nameless := v.Client(t, ownedBy(lockpipe.NoOwner))
		for holder, want := range map[*lockpipe.Client]string{
			other: "web-3:4711", c: "this:1", nameless: "",
		} {
			l := v.Hold(t, holder, "k")
			owner, text := waitedOut(t, c)
			require.Equal(t, want, owner)
			named := map[bool]string{true: " (" + want + ")"}[want != ""]
			require.Contains(t, text, "held by another caller"+named+", seen on ")
			kit.Release(t, l)
			synctest.Wait() // until all nodes have the release
		}
		l, next := kit.BehindAnother(t, c, "k")
		owner, text := waitedOut(t, c)
		require.Empty(t, owner, "another waits before it, and the client does not know who will")
		require.Contains(t, text, "is held by another caller of this Client")
		kit.Release(t, l)
		kit.Release(t, kit.Granted(t, next))
		synctest.Wait()
		require.Equal(t, "this:1", ownerBehind(t, c))
		require.Empty(t, ownerBehind(t, nameless))
	}, ownedBy("this:1"))
}

// ownerBehind returns whom a call names that waited behind another of the same client alone.
func ownerBehind(t *testing.T, c *lockpipe.Client) string {
	t.Helper()
	before, err := c.TryAcquireAll(t.Context(), []string{"k", "beside k"})
	require.NoError(t, err)
	first := kit.QueueFor(t.Context(), c, []string{"k"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	second := kit.QueueFor(ctx, c, []string{"k"})
	kit.Release(t, before)
	time.Sleep(60 * time.Millisecond)
	l := kit.Granted(t, first)
	held, _ := kit.HeldError(t, second)
	kit.Release(t, l)
	synctest.Wait()
	return held.Owner
}

// The goal: a refused attempt costs what it cost before: nothing asks who holds the key.
func TestOwner_IsNotAskedForByAttempts(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k")
		var reads atomic.Int32
		v.Watch(func(_ int, command string, _ []string) {
			if command != "SET" && command != "EVALSHA" {
				reads.Add(1)
			}
		})
		_, tried := c.TryAcquire(t.Context(), "k")
		_, limited := c.Acquire(t.Context(), "k", lockpipe.WithMaxAttempts(3))
		for _, err := range []error{tried, limited} {
			var held *lockpipe.HeldError
			require.ErrorAs(t, err, &held)
			require.Empty(t, held.Owner)
		}
		require.Zero(t, reads.Load())
		v.Watch(nil)
		kit.Release(t, l)
	})
}
