package multiplex

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// start returns a Mux whose attempts never fail because the machine is busy with other things.
func start(t *testing.T, urls []string, change func(*Config)) *Mux {
	t.Helper()
	cfg := Config{
		Nodes: endpoints(t, urls, nil), NodeTimeout: 10 * time.Second, MaxTTL: time.Minute,
		Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	cfg.Fleet = newFleet(cfg)
	m, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = m.Close(ctx)
	})
	return m
}

// endpoints returns the nodes of these URLs.
func endpoints(t *testing.T, urls []string, c *tls.Config) (all []*endpoint.Endpoint) {
	t.Helper()
	for _, text := range urls {
		e, err := endpoint.Parse(text, c, 0)
		require.NoError(t, err)
		all = append(all, e)
	}
	return all
}

// newFleet returns the Fleet of a client whose layout has no nodes, so that nobody compares it.
func newFleet(cfg Config) *fleet.Fleet {
	return fleet.New(fleet.Config{MaxTTL: cfg.MaxTTL, Logger: cfg.Logger})
}

func claim(key, token string) *Claim {
	c := new(Claim)
	c.Init("", []string{key}, token, "")
	return c
}

// others counts the connections of a server but for the one that asks.
func others(t *testing.T, nodes *lockpipetest.Nodes, i int) int {
	t.Helper()
	// An earlier question of the test may have a connection that the server has not closed yet. The
	// client's speak RESP3.
	for began := time.Now(); ; {
		reply, err := nodes.Do(i, "CLIENT", "LIST")
		require.NoError(t, err)
		list := reply.(string)
		if strings.Count(list, " resp=2") <= 1 || time.Since(began) > patient {
			return strings.Count(list, "id=") - 1
		}
	}
}

// The goal: one socket to each master, idle, under load with large and small calls, and after a
// reconnect.
func TestNode_HasOneSocket(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	m := start(t, nodes.URLs(), func(c *Config) { c.NodeTimeout = patient })
	check := func() {
		for i := range nodes.Len() {
			require.Equal(t, 1, others(t, nodes, i))
		}
	}
	load := func() {
		var callers sync.WaitGroup
		for g := range 16 {
			callers.Go(func() {
				for i := range 8 {
					c := new(Claim)
					keys := make([]string, 1+i*100)
					for k := range keys {
						keys[k] = fmt.Sprint(g, "/", i, "/", k)
					}
					c.Init("", keys, fmt.Sprint("t", g, i), "")
					if err := wait(m.Acquire(c, time.Minute, len(keys)),
						context.Background()); err != nil {
						t.Error(err)
					}
					if err := wait(m.Release(c, len(keys)), context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		callers.Wait()
	}
	up(t, m)
	check()
	load()
	check()
	_, err := nodes.Do(0, "CLIENT", "KILL", "TYPE", "normal")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return m.Nodes()[0].State == link.Up &&
			others(t, nodes, 0) == 1
	}, patient, often)
	load()
	check()
}

// The goal: callers never dial. Only its connector dials a node that is down, at growing intervals,
// whatever the load.
func TestNode_OnlyTheConnectorDials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		m := start(t, []string{"127.0.0.1:1"}, func(c *Config) {
			c.Dial = func(context.Context, string, string) (net.Conn, error) {
				dials.Add(1)
				return nil, errors.New("refused")
			}
		})
		begin := time.Now()
		for i := range 10000 {
			require.ErrorIs(t, wait(m.Acquire(claim("k", fmt.Sprint(i)), time.Minute, 1),
				t.Context()), ErrNoQuorum)
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, int(dials.Load()),
			10+int(time.Since(begin)/(link.MaxReconnectDelay/2)))
		require.GreaterOrEqual(t, int(dials.Load()), 10)
		require.NoError(t, m.Close(t.Context()))
	})
}

// The goal: a frozen node gathers neither goroutines nor work that nobody wants any more. When it
// continues, nothing is left on it.
func TestNode_AFrozenOneGathersNothing(t *testing.T) {
	notShort(t, "many calls while a node is frozen")
	nodes := servertest.Start(t, 3)
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	before := runtime.NumGoroutine()
	require.NoError(t, nodes.Freeze(2))
	calls := func(name string) {
		for i := range 500 {
			c := claim(fmt.Sprint("k", name, i), "t")
			require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
			require.NoError(t, wait(m.Release(c, 1), t.Context()))
		}
		require.LessOrEqual(t, runtime.NumGoroutine(), before+2*link.MaxTrips+8)
	}
	calls("frozen")
	becomes(t, m, 2, link.Down, "")
	calls("down")
	require.NoError(t, nodes.Thaw(2))
	require.Eventually(t, func() bool {
		keys, err := nodes.Keys(2, "k")
		return err == nil && len(keys) == 0 && m.log.Waiting(2) == 0
	}, patient, often)
}

// The goal: after a reconnect the kept releases go before anything else, so that no acquire is
// refused by a key that only waits to be deleted.
func TestPendingReleases_GoBeforeWaitingAcquires(t *testing.T) {
	notShort(t, "the order of commands after a reconnect")
	t.Parallel()
	nodes := servertest.Start(t, 1)
	var shut atomic.Bool
	m := start(t, nodes.URLs(), outOfReach(func(_ string) bool {
		return shut.Load()
	}))
	for round := range 20 {
		old := claim("k", fmt.Sprint("old", round))
		require.Eventually(t, func() bool { return m.Nodes()[0].State == link.Up }, patient,
			often)
		require.NoError(t, wait(m.Acquire(old, time.Minute, 1), t.Context()))
		shut.Store(true)
		_, err := nodes.Do(0, "CLIENT", "KILL", "TYPE", "normal")
		require.NoError(t, err)
		require.Eventually(t, func() bool { return m.Nodes()[0].State == link.Down }, patient,
			often)
		require.ErrorIs(t, wait(m.Release(old, 1), t.Context()), ErrNoQuorum)
		shut.Store(false)
		require.Eventually(t, func() bool {
			c := claim("k", fmt.Sprint("new", round))
			err := wait(m.Acquire(c, time.Minute, 1), t.Context())
			require.NotErrorIs(t, err, ErrHeld, "refused by our own key")
			return err == nil && wait(m.Release(c, 1), t.Context()) == nil
		}, patient, often)
	}
}

// The goal: a release that was reported as not confirmed is confirmed when the node can answer
// again.
func TestPendingReleases_AreSentUntilTheyAreConfirmed(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	m := start(t, nodes.URLs(), func(c *Config) { c.NodeTimeout = time.Second })
	c := claim("k", "t")
	require.Eventually(t, func() bool { return m.Nodes()[0].State == link.Up }, patient,
		often)
	require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
	require.NoError(t, nodes.Freeze(0))
	release := m.Release(c, 1)
	require.ErrorIs(t, wait(release, t.Context()), ErrNoQuorum)
	require.Equal(t, NoQuorum, release.Wait(t.Context()).Result)
	require.NoError(t, nodes.Thaw(0))
	require.Eventually(t, func() bool {
		return release.Wait(t.Context()).Result == Won
	}, patient, often)
}
