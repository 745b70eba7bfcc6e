package lockpipe

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// impatient is a context that is cancelled when its Err was called too often: if a loop has no
// delay, no time passes in a bubble.
type impatient struct {
	context.Context
	cancel context.CancelFunc
	looks  atomic.Int64
}

func (c *impatient) Err() error {
	if c.looks.Add(1) > 100_000 {
		c.cancel()
	}
	return c.Context.Err()
}

// The goal: while no quorum can be reached, an attempt takes no time. A caller that wants no delays
// does not burn a processor, and does not delay the other calls of AcquireAsync.
func TestRetryDelay_AttemptsWithoutARoundTripHaveOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Config{
			Nodes: []string{"a:1", "b:1", "c:1"}, Logger: slog.New(slog.DiscardHandler),
			Dial: func(context.Context, string, string) (net.Conn, error) {
				return nil,
					errors.New("no such host")
			},
		})
		require.NoError(t, err)
		defer func() { _ = c.Close(context.Background()) }()
		time.Sleep(time.Second)
		// A call without a limit of attempts makes none in an outage.
		opts := []Option{WithRetryDelay(0, 0), WithMaxAttempts(1 << 20)}
		for name, acquire := range map[string]func(ctx context.Context) error{
			"Acquire": func(ctx context.Context) error {
				_, err := c.Acquire(ctx, "k", opts...)
				return err
			},
			"AcquireAsync": func(ctx context.Context) error {
				ended := make(chan error, 1)
				done := func(_ *Lease, err error) { ended <- err }
				if err := c.AcquireAsync(ctx, []string{"k"}, done, opts...); err != nil {
					return err
				}
				return <-ended
			},
		} {
			before := c.Stats().Attempts
			limited, cancel := context.WithTimeout(t.Context(), time.Second)
			err = acquire(&impatient{Context: limited, cancel: cancel})
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.ErrorIs(t, err, ErrNoQuorum, name)
			require.InDelta(t, 1000, c.Stats().Attempts-before, 20, name)
			cancel()
		}
	})
}
