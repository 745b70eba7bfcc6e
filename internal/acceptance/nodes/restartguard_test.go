package nodes

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// restarting takes a lease, lets a majority of the masters restart empty, and returns the lease and
// what another caller gets then for the same key.
func restarting(t *testing.T, mode lockpipe.GuardMode, ttl time.Duration, newcomer bool) (first,
	second *lockpipe.Lease,
) {
	t.Helper()
	nodes := servertest.Start(t, 3)
	guarded := func(cfg *lockpipe.Config) {
		cfg.RestartGuard, cfg.MaxTTL, cfg.TTL, cfg.NodeTimeout = mode, ttl, ttl, ttl/2
	}
	holder := kit.Connected(t, kit.NewClient(t, nodes, guarded))
	other := holder
	if !newcomer {
		other = kit.Connected(t, kit.NewClient(t, nodes, guarded))
	}
	first = kit.Take(t, holder, "k")
	for i := range 2 {
		require.NoError(t, nodes.Kill(i))
		require.NoError(t, nodes.Restart(i))
	}
	if newcomer {
		other = kit.NewClient(t, nodes, guarded)
	}
	return first, kit.Take(t, other, "k")
}

// The goal: masters that were killed and came back empty do not give a lock to a second caller
// while the first may hold it; neither to a client that knew them nor to a new one.
func TestRestartGuard_AMajorityThatRestartsEmptyGrantsNothingTwice(t *testing.T) {
	kit.SkipIfShort(t, "the quarantine of a majority of servers")
	t.Parallel()
	for name, newcomer := range map[string]bool{
		"a client that knew them": false,
		"a new client":            true,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, _ := restarting(t, lockpipe.GuardAuto, 4*time.Second, newcomer)
			require.Error(t, first.Err(), "two hold the key")
		})
	}
}

// The goal: a client with a short MaxTTL does not end the wait of nodes that have forgotten the
// lock of a client with a long one. That client can't reach them any more, and has left its MaxTTL
// on the third node.
func TestRestartGuard_TheLongestMaxTTLOfAllClientsCounts(t *testing.T) {
	kit.SkipIfShort(t, "a wait for the longest MaxTTL")
	t.Parallel()
	nodes := servertest.Start(t, 3)
	var cut atomic.Bool
	with := func(ttl time.Duration, dial func() error) *lockpipe.Client {
		return kit.Connected(t, kit.NewClient(t, nodes, func(cfg *lockpipe.Config) {
			cfg.TTL, cfg.MaxTTL, cfg.NodeTimeout = ttl, 0, ttl/2
			cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if err := dial(); err != nil {
					return nil, err
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			}
		}))
	}
	long := with(6*time.Second, func() error {
		if cut.Load() {
			return errors.New("out of reach")
		}
		return nil
	})
	short := with(time.Second, func() error { return nil })
	first := kit.Take(t, long, "k")
	cut.Store(true)
	for i := range 2 {
		require.NoError(t, nodes.Kill(i))
		require.NoError(t, nodes.Restart(i))
	}
	kit.Take(t, short, "k")
	require.Error(t, first.Err(), "two hold the key")
}

// The goal: the guard is the reason for that: without it both hold the key.
func TestRestartGuard_WithoutItAMajorityThatRestartsEmptyGrantsTwice(t *testing.T) {
	t.Parallel()
	first, second := restarting(t, lockpipe.GuardOff, kit.LongTTL, true)
	kit.Lasting(t, first)
	kit.Lasting(t, second)
}

// The goal: the status and the error of a call report a quarantine with its end and its reason. An
// extension and a quarantined minority have no effect on callers.
func TestRestartGuard_AQuarantineIsReported(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	held := kit.Take(t, c, "held")
	kit.OnEvery(t, nodes, kit.Span(0, 3), "held", held.Token())
	require.NoError(t, nodes.Flush(0))
	kit.Eventually(t, func() bool { return c.Nodes()[0].State == lockpipe.NodeQuarantined },
		"the flush is not noticed")
	require.Equal(t, "quarantined", c.Nodes()[0].State.String())
	require.NoError(t, held.Extend(t.Context(), kit.LongTTL))
	require.NoError(t, kit.Take(t, c, "k").Release(t.Context()))

	require.NoError(t, nodes.Flush(1))
	kit.Eventually(t, func() bool { return c.Nodes()[1].State == lockpipe.NodeQuarantined },
		"the flush is not noticed")
	_, err := c.TryAcquire(t.Context(), "k")
	kit.Blames(t, err, nodes, []int{0, 1}, "quarantined until ")
	for _, n := range c.Nodes()[:2] {
		require.ErrorContains(t, n.Err, "flushed")
		require.WithinRange(t, n.Until, time.Now().Add(time.Second),
			time.Now().Add(time.Minute+2*time.Second))
	}
	ctx, tried := kit.NewEndingContext(t.Context(), context.DeadlineExceeded),
		c.Stats().Attempts
	waited := kit.Later(func() error {
		_, err := c.Acquire(ctx, "k")
		return err
	})
	kit.Eventually(t, func() bool { return c.Stats().Attempts > tried }, "the call does not try")
	ctx.End()
	err = kit.Receive(t, waited, "the call does not end")
	require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
