package fake_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest/fake"
	"github.com/stretchr/testify/require"
)

// The goal: a leader loses its lease at once by Lose, and leads again after Free.
func TestLose_EndsALeader(t *testing.T) {
	bothClocks(t, func(t *testing.T) {
		c := fake.NewClient(t)
		terms := 0
		err := c.Elect(t.Context(), "k", func(ctx context.Context, l *lockpipe.Lease) error {
			if terms++; terms == 3 {
				return io.ErrUnexpectedEOF
			}
			c.Lose("k")
			over(t, l, lockpipe.ErrLost)
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), lockpipe.ErrLost)
			c.Free("k")
			return nil
		})
		require.Equal(t, io.ErrUnexpectedEOF, err)
		require.Equal(t, 3, terms)
		require.ErrorIs(t, c.Elect(t.Context(), "k", nil), lockpipe.ErrInvalid)
	})
}

// The goal: while another leads, or no node votes, a campaign waits. A leader that reaches its
// limit has expired.
func TestClient_CampaignsWhileItCannotLead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClient(t)
		c.Hold("k")
		c.StopVotes()
		began := time.Now()
		time.AfterFunc(time.Second, func() { c.Free("k") })
		time.AfterFunc(2*time.Second, c.StartVotes)
		terms := 0
		err := c.Elect(t.Context(), "k", func(ctx context.Context, _ *lockpipe.Lease) error {
			if terms++; terms == 2 {
				return nil
			}
			require.InDelta(t, 2*time.Second, time.Since(began), float64(100*time.Millisecond))
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), lockpipe.ErrExpired)
			return io.ErrUnexpectedEOF
		}, lockpipe.WithAutoExtend(5*time.Second))
		require.NoError(t, err)
		require.Equal(t, 2, terms)
	})
}

// The goal: Lose and Expire end the leases of Do and DoAll too.
func TestLose_EndsTheLeaseOfDo(t *testing.T) {
	bothClocks(t, func(t *testing.T) {
		c := fake.NewClient(t)
		err := c.Do(t.Context(), "k", func(ctx context.Context) error {
			c.Lose("k")
			<-ctx.Done()
			return io.ErrUnexpectedEOF
		})
		require.ErrorIs(t, err, lockpipe.ErrLost)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		err = c.DoAll(t.Context(), []string{"a", "b"}, func(context.Context,
			*lockpipe.Lease,
		) error {
			c.Expire("b")
			return nil
		})
		require.ErrorIs(t, err, lockpipe.ErrExpired)
		require.ErrorIs(t, c.Do(t.Context(), "k", nil), lockpipe.ErrInvalid)
		require.ErrorIs(t, c.DoAll(t.Context(), []string{"k"}, nil), lockpipe.ErrInvalid)
	})
}
