package calls

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: a call for a held key makes as many attempts as its limit, and waits for its delay
// between two of them. No release wakes it.
func TestLimited_TheDelayIsBetweenTwoAttempts(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			delay := lockpipe.WithRetryDelay(time.Second, time.Second)
			for _, limit := range []int{1, 2, 5} {
				held := v.Hold(t, c, "k")
				start, before := time.Now(), c.Stats().Attempts
				_, err := of(c)(t.Context(), []string{"k"}, delay, lockpipe.WithMaxAttempts(limit))
				require.ErrorIs(t, err, lockpipe.ErrHeld)
				require.Equal(t, time.Duration(limit-1)*time.Second, time.Since(start))
				require.Equal(t, before+uint64(limit), c.Stats().Attempts)
				kit.Release(t, held)
			}
			held := v.Hold(t, c, "k")
			start := time.Now()
			ended := kit.Later(func() kit.Outcome {
				l, err := of(c)(t.Context(), []string{"k"}, delay, lockpipe.WithMaxAttempts(2))
				return kit.Outcome{Lease: l, Err: err}
			})
			synctest.Wait()
			kit.Release(t, held)
			o := <-ended
			require.NoError(t, o.Err)
			require.Equal(t, time.Second, time.Since(start))
			kit.Release(t, o.Lease)
			v.NothingLeft(t)
		})
	})
}

// The goal: ctx and Close end a call between two attempts at once, and the error has the reason of
// the last attempt and how long the call waited.
func TestLimited_CtxAndCloseEndTheDelay(t *testing.T) {
	t.Parallel()
	for _, closes := range []bool{false, true} {
		bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
			kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
				v.Hold(t, v.Client(t), "k")
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				ended := kit.Later(func() error {
					_, err := of(c)(ctx, []string{"k"}, lockpipe.WithMaxAttempts(2),
						lockpipe.WithRetryDelay(time.Hour, time.Hour))
					return err
				})
				time.Sleep(300 * time.Millisecond)
				want, start := context.Canceled, time.Now()
				if closes {
					want = lockpipe.ErrClosed
					require.NoError(t, c.Close(t.Context()))
				} else {
					cancel(errors.New("the cause is not the error of ctx"))
				}
				err := <-ended
				require.ErrorIs(t, err, want)
				require.ErrorIs(t, err, lockpipe.ErrHeld)
				require.ErrorContains(t, err, `waited 300ms for "k"`)
				require.Zero(t, time.Since(start))
			})
		})
	}
}

// The goal: a limit of attempts bounds a call even if others wait. If ctx had ended before, the
// error says so.
func TestLimited_ACallDoesNotQueue(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := kit.Take(t, c, "k", lockpipe.WithAutoExtend(time.Hour))
		other := kit.Wanted(t, c, []string{"k"})
		begin := time.Now()
		_, err := c.Acquire(t.Context(), "k", lockpipe.WithMaxAttempts(1))
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.Zero(t, time.Since(begin))
		_, err = c.Acquire(t.Context(), "k", lockpipe.WithMaxAttempts(3))
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.Less(t, time.Since(begin), 2*time.Second)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.Acquire(over, "k")
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, (<-other).Release(t.Context()))
		v.NothingLeft(t)
	})
}

// The goal: the error of ctx is found too if it ended the last attempt that was allowed.
func TestLimited_TheErrorOfTheLastAttemptHasTheEndOfCtx(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		err := abortedInTheSecondAttempt(t, v, c, lockpipe.WithMaxAttempts(2))
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, lockpipe.ErrNoQuorum)
	})
}

// The goal: an outage changes nothing for calls with a limit of attempts. Each attempt counts.
func TestLimited_EachAttemptInAnOutageCounts(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		kit.InOutage(t, 3, func(t *testing.T, _ *kit.Cable, c *lockpipe.Client) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			start, before := time.Now(), c.Stats().Attempts
			delay := lockpipe.WithRetryDelay(20*time.Millisecond, 20*time.Millisecond)
			_, err := of(c)(ctx, []string{"k"}, delay, lockpipe.WithMaxAttempts(5))
			kit.QuorumError(t, err)
			require.Equal(t, before+5, c.Stats().Attempts)
			require.Equal(t, 80*time.Millisecond, time.Since(start))
		})
	})
}
