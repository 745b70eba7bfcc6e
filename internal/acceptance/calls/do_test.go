package calls

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: Do without a function is refused before it acquires anything, and counts as a failed
// call.
func TestDo_WithoutAFunctionAcquiresNothing(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		before := v.Sent()
		err := c.Do(t.Context(), "k", nil)
		require.ErrorIs(t, err, lockpipe.ErrInvalid)
		require.ErrorContains(t, err, "fn is nil: give the function")
		require.Equal(t, before, v.Sent(), "something was sent")
	})
}

// The goal: Do releases after its function returns, after it panics (the panic continues), and
// after the caller has left.
func TestDo_AlwaysReleases(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	held := func() {
		_, err := c.TryAcquire(t.Context(), "k")
		require.ErrorIs(t, err, lockpipe.ErrHeld)
	}
	t.Run("returns", func(t *testing.T) {
		require.NoError(t, c.Do(t.Context(), "k", func(ctx context.Context) error {
			held()
			return ctx.Err()
		}))
		kit.NothingLeft(t, nodes)
	})
	t.Run("fails", func(t *testing.T) {
		var inside context.Context
		err := c.Do(t.Context(), "k", func(ctx context.Context) error {
			inside = ctx
			return io.ErrUnexpectedEOF
		})
		require.Equal(t, io.ErrUnexpectedEOF, err)
		require.Error(t, inside.Err(), "the context outlives Do")
		kit.NothingLeft(t, nodes)
	})
	t.Run("panics", func(t *testing.T) {
		require.PanicsWithValue(t, "oh", func() {
			_ = c.Do(t.Context(), "k", func(context.Context) error {
				held()
				panic("oh")
			})
		})
		kit.NothingLeft(t, nodes)
	})
	t.Run("caller leaves", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := c.Do(ctx, "k", func(ctx context.Context) error {
			held()
			cancel()
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.Equal(t, context.Canceled, err)
		kit.NothingLeft(t, nodes)
	})
	t.Run("never gets it", func(t *testing.T) {
		l := kit.Try(t, c, "k")
		ran := false
		err := c.Do(t.Context(), "k", func(context.Context) error { ran = true; return nil },
			lockpipe.WithMaxAttempts(2))
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.False(t, ran)
		require.NoError(t, l.Release(t.Context()))
	})
}

// The goal: when the lease ends under the function of Do, its context is cancelled. Do returns that
// and the function's error.
func TestDo_CancelsItsFunctionWhenTheLeaseEnds(t *testing.T) {
	t.Parallel()
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return errors.Join(io.ErrUnexpectedEOF, context.Cause(ctx))
	}
	t.Run("expired", func(t *testing.T) {
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			begin := time.Now()
			err := c.Do(t.Context(), "k", wait, lockpipe.WithTTL(time.Second))
			require.ErrorIs(t, err, lockpipe.ErrExpired)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.Equal(t, 988*time.Millisecond, time.Since(begin))
			err = c.Do(t.Context(), "k", func(ctx context.Context) error {
				_ = wait(ctx)
				return nil
			}, lockpipe.WithTTL(time.Second))
			require.ErrorIs(t, err, lockpipe.ErrExpired, "a function that looks away")
			v.NothingLeft(t)
		})
	})
	t.Run("closed", func(t *testing.T) {
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			end := kit.Later(func() error { return c.Do(context.Background(), "k", wait) })
			synctest.Wait()
			require.Equal(t, 1, c.Stats().Held)
			require.NoError(t, c.Close(t.Context()))
			err := <-end
			require.ErrorIs(t, err, lockpipe.ErrClosed)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			v.NothingLeft(t)
		})
	})
}

// The goal: a function that asks for a key that its own caller holds is told so, however deep it is
// called. Another caller's key is not said to be its own.
func TestDo_SaysThatAKeyIsItsOwn(t *testing.T) {
	t.Parallel()
	const own = "held by this caller's own lease, from which ctx comes"
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		other := v.Client(t)
		nothing := func(context.Context) error { return nil }
		err := c.Do(t.Context(), "a", func(ctx context.Context) error {
			return c.Do(ctx, "b", func(ctx context.Context) error {
				_, err := c.TryAcquire(ctx, "b")
				require.ErrorIs(t, err, lockpipe.ErrHeld)
				require.ErrorContains(t, err, `"b" is `+own)
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				err = c.Do(short, "a", nothing)
				require.ErrorIs(t, err, lockpipe.ErrHeld)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, `"a" is `+own)

				_, err = c.TryAcquire(t.Context(), "a")
				require.ErrorIs(t, err, lockpipe.ErrHeld)
				require.NotContains(t, err.Error(), own)
				_, err = other.TryAcquire(ctx, "a")
				require.NotContains(t, err.Error(), own)
				l := v.Hold(t, other, "x")
				_, err = c.TryAcquire(ctx, "x")
				require.NotContains(t, err.Error(), own)
				return l.Release(ctx)
			})
		})
		require.NoError(t, err)
		ended := false
		err = c.Do(t.Context(), "a", func(ctx context.Context) error {
			err := c.Do(ctx, "a", nothing)
			require.ErrorContains(t, err, `"a" is `+own, "the lease ran out meanwhile")
			ended = true
			return nil
		}, lockpipe.WithTTL(time.Second))
		require.ErrorIs(t, err, lockpipe.ErrExpired)
		require.True(t, ended)
		v.NothingLeft(t)
	})
}
