package leases

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: a bound context has what ctx has, and lasts while both last.
func TestBind_HasTheValuesAndTheDeadlineOfTheContext(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k")
		deadline := time.Now().Add(time.Second)
		ctx := context.WithValue(t.Context(), kit.BoundKey{}, 42)
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		bound := l.Bind(ctx)
		require.NoError(t, bound.Err())
		require.NoError(t, context.Cause(bound))
		require.Equal(t, 42, bound.Value(kit.BoundKey{}))
		got, ok := bound.Deadline()
		require.True(t, ok)
		require.Equal(t, deadline, got)
		child, cancelChild := context.WithCancel(bound)
		defer cancelChild()
		<-child.Done()
		require.Equal(t, deadline, time.Now())
		require.ErrorIs(t, bound.Err(), context.DeadlineExceeded)
		kit.EndedBy(bound, t, context.DeadlineExceeded)
		kit.EndedBy(child, t, context.DeadlineExceeded)
		kit.Lasting(t, l)
		kit.Release(t, l)
	})
}

// The goal: the cause of a bound context is how the lease ended, if that came first, in all ways in
// which it can end. ctx lasts.
func TestBind_EndsWithTheLease(t *testing.T) {
	t.Parallel()
	type group struct {
		*kit.FakeNodes
		c *lockpipe.Client
	}
	for cause, end := range map[error]func(*testing.T, group, *lockpipe.Lease){
		lockpipe.ErrReleased: func(t *testing.T, _ group, l *lockpipe.Lease) { kit.Release(t, l) },
		lockpipe.ErrClosed: func(t *testing.T, g group, _ *lockpipe.Lease) {
			require.NoError(t, g.c.Close(t.Context()))
		},
		lockpipe.ErrExpired: func(_ *testing.T, _ group, l *lockpipe.Lease) { <-l.Done() },
		lockpipe.ErrLost: func(t *testing.T, g group, l *lockpipe.Lease) {
			for i := range g.Nodes {
				g.Del(i, "k")
			}
			require.ErrorIs(t, l.Extend(t.Context(), time.Second), lockpipe.ErrLost)
		},
	} {
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			l := v.Hold(t, c, "k")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			bound := l.Bind(ctx)
			child := context.WithValue(bound, kit.BoundKey{}, 1)
			require.NoError(t, bound.Err())
			end(t, group{v, c}, l)
			kit.EndedBy(bound, t, cause)
			kit.EndedBy(child, t, cause)
			require.ErrorIs(t, bound.Err(), context.Canceled)
			require.NoError(t, ctx.Err())
			kit.EndedBy(l.Bind(ctx), t, cause)
		})
	}
}

// The goal: if ctx ends first, its cause is that of the bound context, also when the lease ends
// later. The lease lasts.
func TestBind_EndsWithTheContext(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "k")
		ctx, cancel := context.WithCancelCause(t.Context())
		bound := l.Bind(ctx)
		cause := errors.New("the customer has left")
		cancel(cause)
		require.ErrorIs(t, bound.Err(), context.Canceled)
		kit.EndedBy(bound, t, cause)
		kit.Lasting(t, l)
		kit.Release(t, l)
		kit.EndedBy(bound, t, cause)
		kit.EndedBy(l.Bind(ctx), t, cause)
	})
}

// The goal: arguments that make no sense give a context that is over, and no panic.
func TestBind_WithoutALeaseOrAContextIsOver(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		var none *lockpipe.Lease
		kit.EndedBy(none.Bind(t.Context()), t, lockpipe.ErrReleased)
		l := v.Hold(t, c, "k")
		var missing context.Context
		kit.EndedBy(l.Bind(missing), t, lockpipe.ErrInvalid)
		kit.Release(t, l)
	})
}

// The goal: neither a long lease nor a long ctx keeps what a bound context has, once the other one
// has ended.
func TestBind_LeavesNothingBehind(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		long := v.Hold(t, c, "long")
		longCtx, cancelLong := context.WithCancel(t.Context())
		defer cancelLong()
		var left []weak.Pointer[[64]byte]
		bind := func(ctx context.Context, l *lockpipe.Lease) context.Context {
			value := new([64]byte)
			left = append(left, weak.Make(value))
			return l.Bind(context.WithValue(ctx, kit.BoundKey{}, value))
		}
		func() { // its variables are garbage after it
			short := v.Hold(t, c, "short")
			bound := bind(longCtx, short)
			kit.Release(t, short)
			kit.EndedBy(bound, t, lockpipe.ErrReleased)
			shortCtx, cancel := context.WithCancel(t.Context())
			bound = bind(shortCtx, long)
			cancel()
			kit.EndedBy(bound, t, context.Canceled)
		}()
		synctest.Wait()
		runtime.GC()
		for i, p := range left {
			require.Nil(t, p.Value(), "binding %d", i)
		}
		kit.Lasting(t, long)
		require.NoError(t, longCtx.Err())
		kit.Release(t, long)
	})
}
