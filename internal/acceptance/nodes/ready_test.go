package nodes

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// ready starts a call of Ready that must wait.
func ready(ctx context.Context, t *testing.T, c *lockpipe.Client) <-chan error {
	t.Helper()
	ended := kit.Later(func() error { return c.Ready(ctx) })
	synctest.Wait()
	require.Empty(t, ended, "Ready does not wait")
	return ended
}

// gates hold the connections to nodes back until they are opened.
type gates map[string]chan struct{}

// behindGates returns a client of the nodes that is not connected yet.
func behindGates(t *testing.T, v *kit.FakeNodes) (*lockpipe.Client, gates) {
	t.Helper()
	g := gates{}
	for _, url := range v.URLs {
		g[url] = make(chan struct{})
	}
	cfg := kit.Config(v.URLs, nil)
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		select {
		case <-g[addr]:
			return v.Dial(ctx, network, addr)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	cfg.RestartGuard = lockpipe.GuardOff // without it, first use waits for all nodes
	c, err := lockpipe.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { kit.CloseSoon(c) })
	return c, g
}

// The goal: Ready returns at the moment when a quorum can vote, with the others still missing, to
// all callers. It sends nothing of its own.
func TestReady_WaitsForAQuorum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 3)
		c, g := behindGates(t, v)
		first := ready(t.Context(), t, c)
		second := ready(t.Context(), t, c)
		start := time.Now()
		close(g[v.URLs[2]])
		synctest.Wait()
		require.Equal(t, lockpipe.NodeUp, c.Nodes()[2].State)
		require.Empty(t, first)
		close(g[v.URLs[0]])
		require.NoError(t, <-first)
		require.NoError(t, <-second)
		require.Equal(t, start, time.Now(), "it came later than the quorum")
		require.Equal(t, lockpipe.NodeConnecting, c.Nodes()[1].State)
		require.Zero(t, v.Sent())
		require.NoError(t, kit.Try(t, c, "k").Release(t.Context()))
	})
}

// The goal: with a quorum Ready returns nil at once, also if ctx has ended.
func TestReady_DoesNotWaitWithAQuorum(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		before := v.Sent()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, c.Ready(t.Context()))
		require.NoError(t, c.Ready(over))
		require.Equal(t, before, v.Sent(), "something was sent")
	})
}

// The goal: if ctx ends first, the error is ErrNoQuorum and ctx's, and names each node that can't
// vote and why. It does not speak of votes, since none was asked for.
func TestReady_NamesTheNodesThatCannotVote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 3)
		c, g := behindGates(t, v)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		err := c.Ready(over)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		require.ErrorContains(t, err, "lockpipe: no quorum: 0 of 3 nodes can vote, 2 needed; "+
			"3 down: node-0:6379: not connected yet; node-1:6379: not connected yet; ")

		close(g[v.URLs[1]])
		time.Sleep(5 * time.Second) // the dials give up
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err = c.Ready(ctx)
		require.Equal(t, time.Minute, time.Since(start))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		var q *lockpipe.QuorumError
		require.ErrorAs(t, err, &q)
		require.Equal(t, []int{2, 1, 0, 2}, []int{q.Need, q.Granted, q.Refused, q.Unknown})
		require.Len(t, q.Nodes, 2)
		for i, n := range []int{0, 2} {
			require.Equal(t, v.URLs[n], q.Nodes[i].Node)
			require.Error(t, q.Nodes[i].Err)
		}
		require.ErrorContains(t, err, "1 of 3 nodes can vote")
		require.NotContains(t, err.Error(), "granted")
	})
}

// The goal: nodes that were lost and are back, and nodes that fail and heal, count while they can
// vote, and no longer.
func TestReady_FollowsTheNodes(t *testing.T) {
	t.Parallel()
	kit.InOutage(t, 3, func(t *testing.T, k *kit.Cable, c *lockpipe.Client) {
		ended := ready(t.Context(), t, c)
		time.Sleep(time.Minute)
		require.Empty(t, ended)
		k.Reconnected(t, c)
		require.NoError(t, <-ended)

		k.V.Fail(0, kit.OutOfMemory)
		k.V.Fail(1, kit.OutOfMemory)
		fails := func(i int) bool { return c.Nodes()[i].State == lockpipe.NodeFailing }
		for !fails(0) || !fails(1) {
			_, err := c.TryAcquire(t.Context(), "k")
			require.Error(t, err)
			time.Sleep(100 * time.Millisecond)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorContains(t, c.Ready(over), "1 of 3 nodes can vote, 2 needed; 2 failed: ")
		ended = ready(t.Context(), t, c)
		k.V.Heal(1)
		time.Sleep(2 * time.Second) // it is probed
		require.NoError(t, <-ended)
		require.Equal(t, lockpipe.NodeFailing, c.Nodes()[0].State)
	})
}

// The goal: Close ends the calls that wait, with ErrClosed.
func TestReady_OfAClosedClient(t *testing.T) {
	t.Parallel()
	kit.InOutage(t, 3, func(t *testing.T, _ *kit.Cable, c *lockpipe.Client) {
		ended := ready(t.Context(), t, c)
		require.NoError(t, c.Close(t.Context()))
		require.ErrorIs(t, <-ended, lockpipe.ErrClosed)
		require.ErrorIs(t, c.Ready(t.Context()), lockpipe.ErrClosed)
	})
}

// The goal: a caller that asks Ready first fails at once while no quorum can vote, and waits for a
// holder otherwise.
func TestReady_BeforeAcquireFailsFast(t *testing.T) {
	acquire := func(ctx context.Context, c *lockpipe.Client) (*lockpipe.Lease, error) {
		now, over := context.WithCancel(ctx)
		over()
		if err := c.Ready(now); err != nil {
			return nil, err
		}
		return c.Acquire(ctx, "k")
	}
	kit.InOutage(t, 3, func(t *testing.T, k *kit.Cable, c *lockpipe.Client) {
		began := time.Now()
		_, err := acquire(t.Context(), c)
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		require.Zero(t, time.Since(began))
		k.Reconnected(t, c)
		l := kit.Try(t, c, "k")
		ended := kit.Later(func() kit.Outcome {
			l, err := acquire(t.Context(), c)
			return kit.OutcomeNow(l, err)
		})
		time.Sleep(time.Second)
		kit.Waits(t, ended)
		kit.Release(t, l)
		kit.Release(t, kit.Granted(t, ended))
	})
}
