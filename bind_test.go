package lockpipe_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// boundKey is the key of a value in a context.
type boundKey struct{}

// endedBy wants a context that has ended with this cause.
func endedBy(t *testing.T, ctx context.Context, cause error) {
	t.Helper()
	require.Error(t, ctx.Err())
	synctest.Wait()
	select {
	case <-ctx.Done():
	default:
		require.Fail(t, "Done is open")
	}
	require.ErrorIs(t, context.Cause(ctx), cause)
}

// The goal: a bound context has what ctx has, and lasts while both last.
func TestBind_HasTheValuesAndTheDeadlineOfTheContext(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k")
		deadline := time.Now().Add(time.Second)
		ctx := context.WithValue(t.Context(), boundKey{}, 42)
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		bound := l.Bind(ctx)
		require.NoError(t, bound.Err())
		require.NoError(t, context.Cause(bound))
		require.Equal(t, 42, bound.Value(boundKey{}))
		got, ok := bound.Deadline()
		require.True(t, ok)
		require.Equal(t, deadline, got)
		child, cancelChild := context.WithCancel(bound)
		defer cancelChild()
		<-child.Done()
		require.Equal(t, deadline, time.Now())
		require.ErrorIs(t, bound.Err(), context.DeadlineExceeded)
		endedBy(t, bound, context.DeadlineExceeded)
		endedBy(t, child, context.DeadlineExceeded)
		lasting(t, l)
		release(t, l)
	})
}

// The goal: the cause of a bound context is how the lease ended, if that came first, in all ways in
// which it can end. ctx lasts.
func TestBind_EndsWithTheLease(t *testing.T) {
	t.Parallel()
	type group struct {
		*fakeNodes
		c *lockpipe.Client
	}
	for cause, end := range map[error]func(*testing.T, group, *lockpipe.Lease){
		lockpipe.ErrReleased: func(t *testing.T, _ group, l *lockpipe.Lease) { release(t, l) },
		lockpipe.ErrClosed: func(t *testing.T, g group, _ *lockpipe.Lease) {
			require.NoError(t, g.c.Close(t.Context()))
		},
		lockpipe.ErrExpired: func(_ *testing.T, _ group, l *lockpipe.Lease) { <-l.Done() },
		lockpipe.ErrLost: func(t *testing.T, g group, l *lockpipe.Lease) {
			for i := range g.nodes {
				g.del(i, "k")
			}
			require.ErrorIs(t, l.Extend(t.Context(), time.Second), lockpipe.ErrLost)
		},
	} {
		inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
			l := v.hold(t, c, "k")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			bound := l.Bind(ctx)
			child := context.WithValue(bound, boundKey{}, 1)
			require.NoError(t, bound.Err())
			end(t, group{v, c}, l)
			endedBy(t, bound, cause)
			endedBy(t, child, cause)
			require.ErrorIs(t, bound.Err(), context.Canceled)
			require.NoError(t, ctx.Err())
			endedBy(t, l.Bind(ctx), cause)
		})
	}
}

// The goal: if ctx ends first, its cause is that of the bound context, also when the lease ends
// later. The lease lasts.
func TestBind_EndsWithTheContext(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		l := v.hold(t, c, "k")
		ctx, cancel := context.WithCancelCause(t.Context())
		bound := l.Bind(ctx)
		cause := errors.New("the customer has left")
		cancel(cause)
		require.ErrorIs(t, bound.Err(), context.Canceled)
		endedBy(t, bound, cause)
		lasting(t, l)
		release(t, l)
		endedBy(t, bound, cause)
		endedBy(t, l.Bind(ctx), cause)
	})
}

// The goal: arguments that make no sense give a context that is over, and no panic.
func TestBind_WithoutALeaseOrAContextIsOver(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		var none *lockpipe.Lease
		endedBy(t, none.Bind(t.Context()), lockpipe.ErrReleased)
		l := v.hold(t, c, "k")
		var missing context.Context
		endedBy(t, l.Bind(missing), lockpipe.ErrInvalid)
		release(t, l)
	})
}

// The goal: neither a long lease nor a long ctx keeps what a bound context has, once the other one
// has ended.
func TestBind_LeavesNothingBehind(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
		long := v.hold(t, c, "long")
		longCtx, cancelLong := context.WithCancel(t.Context())
		defer cancelLong()
		var left []weak.Pointer[[64]byte]
		bind := func(ctx context.Context, l *lockpipe.Lease) context.Context {
			value := new([64]byte)
			left = append(left, weak.Make(value))
			return l.Bind(context.WithValue(ctx, boundKey{}, value))
		}
		func() { // its variables are garbage after it
			short := v.hold(t, c, "short")
			bound := bind(longCtx, short)
			release(t, short)
			endedBy(t, bound, lockpipe.ErrReleased)
			shortCtx, cancel := context.WithCancel(t.Context())
			bound = bind(shortCtx, long)
			cancel()
			endedBy(t, bound, context.Canceled)
		}()
		synctest.Wait()
		runtime.GC()
		for i, p := range left {
			require.Nil(t, p.Value(), "binding %d", i)
		}
		lasting(t, long)
		require.NoError(t, longCtx.Err())
		release(t, long)
	})
}
