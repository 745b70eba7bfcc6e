package calls

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: a lease goes from caller to caller of a process in the order in which they came,
// without a trip to the nodes, and is released by the last of them.
func TestHandoff_InOrderWithoutARoundTrip(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k")
		token := l.Token()
		var all []<-chan kit.Outcome
		for range 8 {
			all = append(all, kit.Queue(t, c, "k"))
		}
		before := c.Stats().Operations
		for i, next := range all {
			for _, later := range all[i:] {
				kit.Waits(t, later)
			}
			kit.Release(t, l)
			l = kit.Granted(t, next)
			require.Equal(t, token, l.Token())
			require.Equal(t, 1, c.Stats().Held)
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, before, c.Stats().Operations)
		kit.Release(t, l)
		v.NothingLeft(t)
		require.Zero(t, c.Stats().Held)
	})
}

// The goal: after the handoff the old lease is over, and nothing that is done to it reaches the
// nodes or the new lease, even after the new one was handed off too and when the old one would have
// ended.
func TestHandoff_TheOldLeaseTouchesNothing(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		old := v.Hold(t, c, "k")
		until := old.Until()
		second, third := kit.Queue(t, c, "k"), kit.Queue(t, c, "k")
		synctest.Wait()
		before := c.Stats()
		touch := func(holder *lockpipe.Lease) {
			t.Helper()
			kit.Over(t, old, lockpipe.ErrReleased)
			require.ErrorIs(t, old.Extend(t.Context(), time.Second), lockpipe.ErrReleased)
			require.NoError(t, old.Release(t.Context()))
			require.NoError(t, c.ReleaseAll(t.Context(), old, old))
			synctest.Wait()
			kit.Lasting(t, holder)
			require.Equal(t, until, holder.Until())
			for i := range v.Nodes {
				require.Equal(t, holder.Token(), v.Get(i, "k"))
				require.Equal(t, kit.LongTTL, v.Ttl(i, "k"))
			}
		}
		kit.Release(t, old)
		var together sync.WaitGroup
		for range 8 {
			together.Go(func() {
				if err := old.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		together.Wait()
		l := kit.Granted(t, second)
		touch(l)
		kit.Waits(t, third)
		kit.Release(t, l)
		l = kit.Granted(t, third)
		touch(l)
		after := c.Stats()
		require.Equal(t, before.Operations, after.Operations)
		require.Equal(t, before.Held, after.Held)
		kit.Release(t, l)
		require.NoError(t, old.Release(t.Context()))
		v.NothingLeft(t)
		time.Sleep(2 * kit.LongTTL)
		kit.Over(t, old, lockpipe.ErrReleased)
	})
}

// The goal: the callers of one process do not keep a key from others for longer than 50 ms and the
// turn of the last of them.
func TestHandoff_EndsAfterATime(t *testing.T) {
	t.Parallel()
	const turn = 3 * time.Millisecond
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		other := v.Client(t)
		l := v.Hold(t, c, "k")
		var busy sync.WaitGroup
		for range 60 { // 180 ms of turns
			next := kit.Queue(t, c, "k")
			busy.Go(func() {
				o := <-next
				if o.Err != nil {
					t.Error(o.Err)
					return
				}
				time.Sleep(turn)
				if err := o.Lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		start := time.Now()
		kit.Release(t, l)
		got, err := other.Acquire(t.Context(), "k", lockpipe.WithRetryDelay(time.Millisecond/2,
			time.Millisecond/2))
		require.NoError(t, err)
		// Without pushes, the other one asks again after its delay, and that of the one before it.
		require.Less(t, time.Since(start), 50*time.Millisecond+turn+4*time.Millisecond)
		require.Greater(t, time.Since(start), 50*time.Millisecond-1)
		kit.Release(t, got)
		busy.Wait()
		v.NothingLeft(t)
	})
}

// The goal: a lease is not handed off if nodes may still change it, or keep it longer than it
// lasts.
func TestHandoff_NotOfALeaseInDoubt(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l, next := kit.BehindAnother(t, c, "k")
		// A node that has not heard of it keeps the keys for longer.
		require.NoError(t, l.Extend(t.Context(), time.Second))
		token := l.Token()
		kit.Release(t, l)
		l = kit.Granted(t, next)
		require.NotEqual(t, token, l.Token())
		kit.Release(t, l)
		v.NothingLeft(t)
	})
}

// The goal: a lease that is over is not handed off. After a release at the very end of its time the
// receiver gets no lease that is over.
func TestHandoff_NotOfALeaseThatRanOut(t *testing.T) {
	t.Parallel()
	for _, before := range []time.Duration{-time.Millisecond, 0, 1, time.Millisecond} {
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			l := v.Hold(t, c, "k", lockpipe.WithTTL(time.Second))
			next := kit.Queue(t, c, "k", lockpipe.WithTTL(time.Second))
			time.Sleep(time.Until(l.Until()) - before)
			err := l.Release(t.Context())
			if before > 0 {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, lockpipe.ErrExpired)
			}
			time.Sleep(200 * time.Millisecond)
			l = kit.Granted(t, next)
			kit.Lasting(t, l)
			for i := range v.Nodes {
				require.Equal(t, l.Token(), v.Get(i, "k"))
				require.Greater(t, v.Ttl(i, "k"), time.Until(l.Until()))
			}
			kit.Release(t, l)
			v.NothingLeft(t)
		})
	}
}

// The goal: a caller that is cancelled at the moment of the handoff either has the lease or another
// has it.
func TestHandoff_ACallerIsCancelledAtThatMoment(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		for n := range 60 {
			l := v.Hold(t, c, "k", lockpipe.WithTTL(time.Second))
			ctx, cancel := context.WithCancel(t.Context())
			var opts []lockpipe.Option
			if n%2 == 0 {
				opts = append(opts, lockpipe.WithTTL(10*time.Second)) // it is extended first
			}
			first := kit.QueueFor(ctx, c, []string{"k"}, opts...)
			second := kit.Queue(t, c, "k")
			if n%3 == 0 {
				cancel()
				kit.Release(t, l)
			} else {
				kit.Release(t, l)
				cancel()
			}
			o := <-first
			if o.Err == nil {
				kit.Lasting(t, o.Lease)
				kit.Waits(t, second)
				kit.Release(t, o.Lease)
			} else {
				require.ErrorIs(t, o.Err, context.Canceled)
			}
			time.Sleep(60 * time.Millisecond)
			kit.Release(t, kit.Granted(t, second))
			v.NothingLeft(t)
			cancel()
		}
	})
}

// The goal: only who waits for exactly these keys is handed them; others get them from the nodes.
func TestHandoff_ALeaseOfManyKeysAsAWhole(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l, err := c.TryAcquireAll(t.Context(), []string{"a", "b", "c"})
		require.NoError(t, err)
		waited := kit.QueueFor(t.Context(), c, []string{"a", "b", "c"})
		kit.Release(t, l)
		l = kit.Granted(t, waited) // calls that come now wait for it in the queue
		same := kit.QueueFor(t.Context(), c, []string{"a", "b", "a", "c"})
		fewer := kit.QueueFor(t.Context(), c, []string{"a", "b"})
		rest := kit.QueueFor(t.Context(), c, []string{"c"})
		before := c.Stats().Operations
		kit.Release(t, l)
		got := kit.Granted(t, same)
		require.Equal(t, before, c.Stats().Operations)
		require.Equal(t, l.Token(), got.Token())
		require.Equal(t, []string{"a", "b", "c"}, got.Keys())
		kit.Release(t, got)
		time.Sleep(time.Second) // these nodes do not push changes
		two, one := kit.Granted(t, fewer), kit.Granted(t, rest)
		require.NotEqual(t, got.Token(), two.Token())
		require.NotEqual(t, got.Token(), one.Token())
		require.NoError(t, c.ReleaseAll(t.Context(), two, one))
		v.NothingLeft(t)
	})
}

// The goal: ReleaseAll and Do hand off as Release does, and Do returns only what fn returned.
func TestHandoff_ByReleaseAllAndDo(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		var held []*lockpipe.Lease
		var next []<-chan kit.Outcome
		for i := range 5 {
			held = append(held, v.Hold(t, c, fmt.Sprint(i)))
			next = append(next, kit.Queue(t, c, fmt.Sprint(i)))
		}
		before := c.Stats().Operations
		require.NoError(t, c.ReleaseAll(t.Context(), held...))
		for i := range next {
			held[i] = kit.Granted(t, next[i])
		}
		require.Equal(t, before, c.Stats().Operations)
		require.NoError(t, c.ReleaseAll(t.Context(), held...))
		v.NothingLeft(t)

		var inner context.Context
		var after <-chan kit.Outcome
		require.NoError(t, c.Do(t.Context(), "k", func(ctx context.Context) error {
			inner = ctx
			after = kit.Queue(t, c, "k")
			before = c.Stats().Operations
			return nil
		}))
		require.Error(t, inner.Err())
		l := kit.Granted(t, after)
		require.Equal(t, before, c.Stats().Operations)
		kit.Release(t, l)
		v.NothingLeft(t)
	})
}

// The goal: a lease that is handed over has its keys in the order of the call.
func TestHandoff_TheLeaseHasTheOrderOfTheCall(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l, err := c.TryAcquireAll(t.Context(), []string{"a", "b"})
		require.NoError(t, err)
		turned := kit.Wanted(t, c, []string{"b", "a"})
		require.NoError(t, l.Release(t.Context()))
		got := <-turned
		require.Equal(t, []string{"b", "a"}, got.Keys())
		require.Equal(t, "b", got.Key())
		require.NoError(t, got.Release(t.Context()))
		v.NothingLeft(t)
	})
}
