package leases

import (
	"context"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: by the local clock, the lease ends for its holder before its keys can expire on any
// node, even if nobody asks the lease.
func TestLease_EndsForItsHolderBeforeItDoesOnTheNodes(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		begin := time.Now()
		l := kit.Try(t, c, "k", lockpipe.WithTTL(10*time.Second))
		require.Equal(t, begin.Add(10*time.Second-100*time.Millisecond-2*time.Millisecond),
			l.Until().Round(0))
		<-l.Done()
		require.Equal(t, 9898*time.Millisecond, time.Since(begin))
		kit.Over(t, l, lockpipe.ErrExpired)
		require.Equal(t, 102*time.Millisecond, v.Ttl(0, "k"), "the node let go first")
		require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrExpired)
	})
}

// The goal: no method of a nil lease or of the zero Lease panics: such a lease is over.
func TestLease_ANilOrZeroLeaseIsOver(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 1, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		for _, l := range []*lockpipe.Lease{nil, {}} {
			require.Empty(t, l.Key())
			require.Empty(t, l.Keys())
			require.Empty(t, l.Token())
			require.Zero(t, l.Fence())
			require.ErrorIs(t, l.Extend(t.Context(), time.Second), lockpipe.ErrReleased)
			require.ErrorIs(t, l.Extend(t.Context(), 0), lockpipe.ErrReleased)
			require.NoError(t, l.Release(t.Context()))
			kit.Over(t, l, lockpipe.ErrReleased)
		}
		require.NoError(t, c.ReleaseAll(t.Context()))
		held := v.Hold(t, c, "k")
		require.NoError(t, c.ReleaseAll(t.Context(), nil, &lockpipe.Lease{}, held, nil))
		v.NothingLeft(t)
	})
}

// The goal: that holds for each method, also for those that come later.
func TestLease_NoMethodPanicsWithoutALease(t *testing.T) {
	t.Parallel()
	for _, l := range []*lockpipe.Lease{nil, {}} {
		v := reflect.ValueOf(l)
		for i := range v.NumMethod() {
			var args []reflect.Value
			method := v.Method(i).Type()
			for j := range method.NumIn() {
				in := method.In(j)
				if in == reflect.TypeFor[context.Context]() {
					args = append(args, reflect.ValueOf(t.Context()))
				} else {
					args = append(args, reflect.Zero(in))
				}
			}
			require.NotPanics(t, func() { v.Method(i).Call(args) }, v.Type().Method(i).Name)
		}
	}
}

// The goal: a silent node may be sent a lease that is over when the node continues. Then the client
// deletes the key there, and it does not last for a whole TTL.
func TestLease_AnExpiredOneLeavesNothingOnANodeThatWasSilent(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		v.Silence(0)
		l, err := c.TryAcquireAll(t.Context(), kit.KeysOf("key", 3),
			lockpipe.WithTTL(2*time.Second))
		require.NoError(t, err)
		<-l.Done()
		kit.Over(t, l, lockpipe.ErrExpired)
		require.True(t, kit.Poll(func() bool { // it is none while it is on its way
			return c.Nodes()[0].PendingReleases > 0 && c.Stats().PendingReleases > 0
		}), "no release is kept for the silent node")
		var set, deleted atomic.Int32
		v.Watch(func(i int, command string, _ []string) {
			switch {
			case i == 0 && command == "SET":
				set.Add(1)
			case i == 0 && command == "DEL":
				deleted.Add(1)
			}
		})
		v.Speak(0)
		require.EqualValues(t, 3, set.Load(), "it is not late")
		time.Sleep(time.Second)
		v.NothingLeft(t)
		require.GreaterOrEqual(t, deleted.Load(), int32(3), "it did not delete what it was sent")
	}, kit.Timeout(time.Second))
}

// The goal: after every kind of end all methods of a lease report the same, at once. The lease
// deletes nothing that is not its own.
func TestLease_ReportsHowItEnded(t *testing.T) {
	t.Parallel()
	t.Run("released", func(t *testing.T) {
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			early, late := kit.Try(t, c, "early"), kit.Try(t, c, "late")
			ctx := early.Context()
			kit.Lasting(t, early)
			kit.Lasting(t, late)
			for _, l := range []*lockpipe.Lease{early, late} {
				require.NoError(t, l.Release(t.Context()))
				kit.Over(t, l, lockpipe.ErrReleased)
				require.NoError(t, l.Release(t.Context()))
				require.ErrorIs(t, l.Extend(t.Context(), kit.LongTTL), lockpipe.ErrReleased)
			}
			require.ErrorIs(t, context.Cause(ctx), lockpipe.ErrReleased)
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			require.Equal(t, "early", early.Key())
			v.NothingLeft(t)
		})
	})
	t.Run("expired", func(t *testing.T) {
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			asked := kit.Try(t, c, "asked", lockpipe.WithTTL(time.Second))
			unasked := kit.Try(t, c, "unasked", lockpipe.WithTTL(time.Second))
			<-asked.Done()
			for _, l := range []*lockpipe.Lease{asked, unasked} {
				kit.Over(t, l, lockpipe.ErrExpired)
				require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrExpired)
				require.ErrorIs(t, l.Extend(t.Context(), kit.LongTTL), lockpipe.ErrExpired)
				require.ErrorIs(t, l.Release(t.Context()), lockpipe.ErrExpired)
				kit.Over(t, l, lockpipe.ErrExpired)
			}
			v.NothingLeft(t)
		})
	})
}
