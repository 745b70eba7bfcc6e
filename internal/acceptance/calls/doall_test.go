package calls

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: DoAll runs its function while one lease has all keys. The function gets that lease, its
// fence and its context. After it nothing is left.
func TestDoAll_RunsWithTheLeaseOfAllKeys(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		var inside context.Context
		var lease *lockpipe.Lease
		err := c.DoAll(t.Context(), []string{"a", "b", "a"}, func(ctx context.Context,
			l *lockpipe.Lease,
		) error {
			inside, lease = ctx, l
			kit.Lasting(t, l)
			require.NoError(t, ctx.Err())
			require.Equal(t, []string{"a", "b"}, l.Keys())
			require.Positive(t, l.Fence())
			require.NoError(t, l.Extend(ctx, 30*time.Second))
			for _, key := range l.Keys() {
				_, err := c.TryAcquire(ctx, key)
				require.ErrorIs(t, err, lockpipe.ErrHeld)
			}
			return io.ErrUnexpectedEOF
		}, lockpipe.WithFencing())
		require.Equal(t, io.ErrUnexpectedEOF, err)
		require.Error(t, inside.Err(), "the context outlives DoAll")
		kit.Over(t, lease, lockpipe.ErrReleased)
		v.OnlyCompanions(t)
	})
}

// The goal: DoAll releases after a panic, which continues.
func TestDoAll_ReleasesAfterAPanic(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		require.PanicsWithValue(t, "oh", func() {
			_ = c.DoAll(t.Context(), []string{"a", "b"},
				func(context.Context, *lockpipe.Lease) error { panic("oh") })
		})
		v.NothingLeft(t)
	})
}

// The goal: if the function released its lease, DoAll returns the function's error, nothing else.
func TestDoAll_TheFunctionMayRelease(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		require.NoError(t, c.DoAll(t.Context(), []string{"a", "b"}, func(ctx context.Context,
			l *lockpipe.Lease,
		) error {
			kit.Release(t, l)
			kit.EndedBy(ctx, t, lockpipe.ErrReleased)
			return nil
		}))
		v.NothingLeft(t)
	})
}

// The goal: DoAll joins how the lease ended under its function. Without a function, it acquires
// nothing.
func TestDoAll_ReturnsHowTheLeaseEnded(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		err := c.DoAll(t.Context(), []string{"a", "b"}, func(ctx context.Context,
			_ *lockpipe.Lease,
		) error {
			<-ctx.Done()
			return io.ErrUnexpectedEOF
		}, lockpipe.WithTTL(time.Second))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.ErrorIs(t, err, lockpipe.ErrExpired)
		v.NothingLeft(t)
		before := v.Sent()
		err = c.DoAll(t.Context(), []string{"a"}, nil)
		require.ErrorIs(t, err, lockpipe.ErrInvalid)
		require.ErrorContains(t, err, "fn is nil: give the function")
		require.Equal(t, before, v.Sent(), "something was sent")
	})
}
