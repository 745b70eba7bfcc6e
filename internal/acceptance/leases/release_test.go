package leases

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// The goal: a release that begins just before Close is on its way before the nodes are left.
func TestRelease_JustBeforeCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	for round := range 50 {
		c := kit.Connected(t, kit.NewClient(t, nodes))
		var callers sync.WaitGroup
		begun := make(chan struct{})
		var once sync.Once
		for g := range 8 {
			callers.Go(func() {
				for i := 0; ; i++ {
					l, err := c.TryAcquire(context.Background(), fmt.Sprintf("k:%d:%d:%d", round, g,
						i))
					once.Do(func() { close(begun) })
					if err != nil {
						if !errors.Is(err, lockpipe.ErrClosed) {
							t.Errorf("TryAcquire beside Close: %v", err)
						}
						return
					}
					if err := l.Release(context.Background()); err != nil &&
						!errors.Is(err, lockpipe.ErrClosed) {
						t.Errorf("Release beside Close: %v", err)
					}
				}
			})
		}
		<-begun
		require.NoError(t, c.Close(context.Background()))
		callers.Wait()
		for i := range nodes.Len() {
			keys, err := nodes.Keys(i, kit.Prefix+"k:")
			require.NoError(t, err)
			require.Empty(t, keys, "round %d, node %d", round, i)
		}
	}
}

// The goal: a release is nil if a silent minority does not answer it, and that minority executes it
// when it continues.
func TestRelease_ReachesAMinorityThatWasSilent(t *testing.T) {
	kit.SkipIfShort(t, "releases to a server that was silent")
	t.Parallel()
	for _, givenUp := range []bool{false, true} {
		t.Run(fmt.Sprint("given up ", givenUp), func(t *testing.T) {
			t.Parallel()
			nodes := servertest.Start(t, 5)
			c := kit.Connected(t, kit.NewClient(t, nodes))
			l, err := c.TryAcquireAll(t.Context(), kit.KeysOf("key", 3))
			require.NoError(t, err)
			kit.OnEvery(t, nodes, kit.Span(0, 5), "key:2", l.Token())
			freeze(t, nodes, 0, 1)
			late := kit.Try(t, c, "late") // these nodes have not answered its acquire either
			require.NoError(t, l.Release(t.Context()))
			require.NoError(t, late.Release(t.Context()))
			kit.NothingLeft(t, nodes, 2, 3, 4)
			if givenUp {
				kit.Eventually(t, func() bool {
					all := c.Nodes()
					return all[0].State != lockpipe.NodeUp && all[1].State != lockpipe.NodeUp
				}, "the silent connections are not given up")
			}
			thaw(t, nodes, 0, 1)
			kit.CaughtUp(t, c, nodes)
			kit.NothingLeft(t, nodes)
			require.NoError(t, l.Release(t.Context()))
		})
	}
}

func freeze(t *testing.T, nodes *lockpipetest.Nodes, which ...int) {
	t.Helper()
	for _, i := range which {
		require.NoError(t, nodes.Freeze(i))
	}
}

func thaw(t *testing.T, nodes *lockpipetest.Nodes, which ...int) {
	t.Helper()
	for _, i := range which {
		require.NoError(t, nodes.Thaw(i))
	}
}

// The goal: a release that a majority does not answer is ErrNoQuorum, or the caller's ctx error. It
// continues in the background, and is nil if it is repeated after the nodes continue.
func TestRelease_ContinuesIfItIsNotConfirmed(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 5)
	c := kit.Connected(t, kit.NewClient(t, nodes, kit.Timeout(200*time.Millisecond)))
	l, err := c.AcquireAll(t.Context(), kit.KeysOf("key", 3))
	require.NoError(t, err)
	other := kit.Take(t, c, "other")
	kit.OnEvery(t, nodes, kit.Span(0, 5), "key:2", l.Token())
	kit.OnEvery(t, nodes, kit.Span(0, 5), "other", other.Token())
	freeze(t, nodes, 0, 1, 2)
	err = l.Release(t.Context())
	kit.Blames(t, err, nodes, kit.Span(0, 3), "")
	kit.Over(t, l, lockpipe.ErrReleased)
	kit.Blames(t, l.Release(t.Context()), nodes, kit.Span(0, 3), "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, other.Release(ctx), context.Canceled)
	kit.Over(t, other, lockpipe.ErrReleased)
	require.ErrorIs(t, l.Extend(t.Context(), kit.LongTTL), lockpipe.ErrReleased)
	kit.NothingLeft(t, nodes, 3, 4)
	thaw(t, nodes, 0, 1, 2)
	kit.Eventually(t, func() bool { return l.Release(t.Context()) == nil },
		"the repeated release is not confirmed")
	kit.Eventually(t, func() bool { return other.Release(t.Context()) == nil },
		"the other repeated release is not confirmed")
	kit.CaughtUp(t, c, nodes)
	kit.NothingLeft(t, nodes)
}

// The goal: a release that is repeated waits for NodeTimeout again, so a caller that repeats it
// until it is confirmed does not spin.
func TestRelease_ARepeatedOneWaitsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 3)
		c := v.Client(t, kit.Timeout(200*time.Millisecond))
		l := v.Hold(t, c, "key")
		v.Silence(0, 1)
		for range 3 {
			for _, release := range []func() error{
				func() error { return l.Release(t.Context()) },
				func() error { return c.ReleaseAll(t.Context(), l) },
			} {
				from := time.Now()
				require.ErrorIs(t, release(), lockpipe.ErrNoQuorum)
				require.GreaterOrEqual(t, time.Since(from), 200*time.Millisecond)
			}
		}
		v.Speak(0, 1)
		require.NoError(t, l.Release(t.Context()))
	})
}

// The goal: a release whose ctx has ended is sent nevertheless.
func TestRelease_IsSentWithAnEndedContext(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	one, many := kit.Try(t, c, "one"), kit.Try(t, c, "many")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = one.Release(ctx) // the answer may come first
	_ = c.ReleaseAll(ctx, many)
	kit.Over(t, one, lockpipe.ErrReleased)
	kit.Over(t, many, lockpipe.ErrReleased)
	kit.NothingLeft(t, nodes)
}

// The goal: the release of a lease that has expired does not delete the keys of the next holder.
func TestRelease_AfterTheEndLeavesTheNextHolderAlone(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	old := kit.Take(t, c, "k", lockpipe.WithTTL(time.Second))
	next, err := c.Acquire(t.Context(), "k")
	require.NoError(t, err)
	kit.Over(t, old, lockpipe.ErrExpired)
	require.ErrorIs(t, old.Release(t.Context()), lockpipe.ErrExpired)
	require.ErrorIs(t, old.Extend(t.Context(), kit.LongTTL), lockpipe.ErrExpired)
	require.NotEqual(t, old.Token(), next.Token())
	kit.CaughtUp(t, c, nodes)
	held := 0
	for i := range nodes.Len() {
		// One of them may have kept the old key for a moment longer, and refused.
		if kit.Value(t, nodes, i, "k") == next.Token() {
			held++
		}
	}
	require.GreaterOrEqual(t, held, 2)
	require.NoError(t, next.Extend(t.Context(), kit.LongTTL))
	kit.Lasting(t, next)
	require.NoError(t, next.Release(t.Context()))
	kit.NothingLeft(t, nodes)
}

// The goal: releasing a lease whose keys are another's says that it was lost, and deletes nothing.
func TestRelease_OfKeysThatAreAnothersIsALoss(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	l := kit.Try(t, c, "k")
	kit.OnEvery(t, nodes, kit.Span(0, 3), "k", l.Token())
	for i := range nodes.Len() {
		kit.Do(t, nodes, i, "SET", kit.Prefix+"k", "another", "PX", "600000")
	}
	require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrLost)
	kit.CaughtUp(t, c, nodes)
	kit.NothingOfOurs(t, nodes, kit.Span(0, 3), "k")
}

// The goal: ReleaseAll releases all leases that it can, and skips nil. The same lease may be there
// twice. The error names those that were over.
func TestReleaseAll_ReleasesAllThatItCan(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	expired := kit.Take(t, c, "expired", lockpipe.WithTTL(time.Second))
	lost := kit.Try(t, c, "lost")
	kit.OnEvery(t, nodes, kit.Span(0, 3), "lost", lost.Token())
	for i := range nodes.Len() {
		kit.Do(t, nodes, i, "DEL", kit.Prefix+"lost")
	}
	require.ErrorIs(t, lost.Extend(t.Context(), kit.LongTTL), lockpipe.ErrLost)
	kit.Ended(t, expired)
	got, err := kit.Each(100)(t.Context(), c, "many")
	require.NoError(t, err)
	leases := append([]*lockpipe.Lease{nil, expired, got[0], lost, got[99]}, got...)
	err = c.ReleaseAll(t.Context(), leases...)
	require.ErrorIs(t, err, lockpipe.ErrExpired)
	require.ErrorIs(t, err, lockpipe.ErrLost)
	require.NotErrorIs(t, err, lockpipe.ErrNoQuorum)
	require.ErrorContains(t, err, `"expired"`)
	require.ErrorContains(t, err, `"lost"`)
	require.NotContains(t, err.Error(), "many")
	for _, l := range got {
		kit.Over(t, l, lockpipe.ErrReleased)
	}
	require.NoError(t, c.ReleaseAll(t.Context(), got...))
	kit.NothingLeft(t, nodes)
}

// The goal: Release waits for the nodes also if its context ends with the lease, such as that of a
// function.
func TestRelease_AContextOfItsOwnLeaseDoesNotCutItShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 3)
		v.Latency(50 * time.Millisecond)
		c := v.Client(t)
		in := func(ctx context.Context, l *lockpipe.Lease) error { return l.Release(ctx) }
		require.NoError(t, c.DoAll(t.Context(), []string{"do"}, in))
		require.NoError(t, c.Elect(t.Context(), "lead", in))
		l, other := kit.Take(t, c, "its context"), kit.Take(t, c, "other")
		require.NoError(t, c.ReleaseAll(l.Context(), l, other))
		l = kit.Take(t, c, "around")
		around, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		require.ErrorIs(t, l.Release(l.Bind(around)), context.DeadlineExceeded)
		for _, bound := range []func(*lockpipe.Lease) context.Context{
			func(l *lockpipe.Lease) context.Context { return l.Bind(t.Context()) },
			(*lockpipe.Lease).Context,
		} {
			l = kit.Take(t, c, "inside")
			inside, cancel := context.WithTimeout(bound(l), 10*time.Millisecond)
			defer cancel()
			start := time.Now()
			require.ErrorIs(t, l.Release(inside), context.DeadlineExceeded)
			require.Equal(t, 10*time.Millisecond, time.Since(start))
		}
	})
}
