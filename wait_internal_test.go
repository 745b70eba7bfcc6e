package lockpipe

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// connectedTo returns a client of the nodes that is connected to all of them.
func connectedTo(t *testing.T, nodes *lockpipetest.Nodes) *Client {
	t.Helper()
	c, err := New(Config{
		Nodes: nodes.URLs(), NodeTimeout: 10 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	require.Eventually(t, func() bool {
		for _, n := range c.Nodes() {
			if n.State != NodeUp {
				return false
			}
		}
		return true
	}, 20*time.Second, 10*time.Millisecond)
	return c
}

// The goal: an arbiter that always reports something new does not keep a caller from keys that the
// other nodes would grant. Here a holder that only the arbiter knows keeps renewing its key there.
func TestContention_ABusyArbiterDoesNotHideFreeKeys(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	c := connectedTo(t, nodes)
	arbiter := c.mux.Arbiter("k", 0)
	set := func(i int) {
		if _, err := nodes.Do(i, "SET", "k", "another", "PX", "50000"); err != nil {
			t.Error(err)
		}
	}
	for i := range 3 {
		set(i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for ctx.Err() == nil {
			set(arbiter)
			time.Sleep(5 * time.Millisecond)
		}
	})
	held := make(chan error, 1)
	require.NoError(t, c.AcquireAsync(ctx, []string{"k"}, func(_ *Lease,
		err error,
	) {
		held <- err
	}))
	for i := range 3 {
		if i != arbiter {
			_, err := nodes.Do(i, "DEL", "k")
			require.NoError(t, err)
		}
	}
	require.NoError(t, <-held)
	cancel()
	renewing.Wait()
}

// The goal: calls with a limit of attempts do not queue, and record no contention. They have no
// queue key, so what one of them met for its keys another would apply to other keys.
func TestContention_CallsThatDoNotQueueRecordNone(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	c, rival := connectedTo(t, nodes), connectedTo(t, nodes)
	for range 5 {
		require.False(t, meets(t, c, rival, nodes, WithMaxAttempts(1<<20)))
	}
	require.Eventually(t, func() bool { return meets(t, c, rival, nodes) }, 20*time.Second,
		time.Millisecond, "no contention is recorded")
}

// meets has c wait for a key that the rival holds. In most cases a node notifies c that it is free.
// meets reports whether c recorded the contention.
func meets(t *testing.T, c, rival *Client, nodes *lockpipetest.Nodes, opts ...Option) bool {
	held, err := rival.Acquire(t.Context(), "x")
	require.NoError(t, err)
	got := make(chan error, 1)
	require.NoError(t, c.AcquireAsync(t.Context(), []string{"x"}, func(l *Lease, err error) {
		if err == nil {
			err = l.Release(t.Context())
		}
		got <- err
	}, opts...))
	arbiter := c.mux.Arbiter("x", 0)
	for start := time.Now(); time.Since(start) < 20*time.Second; {
		info, err := nodes.Do(arbiter, "INFO", "stats")
		require.NoError(t, err)
		if text, _ := info.(string); strings.Contains(text, "tracking_total_keys:1") {
			break
		}
	}
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, <-got)
	return c.contention.any.Load()
}

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
