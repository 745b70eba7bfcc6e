package lockpipetest

import (
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestNodes_AreIndependentAndEmpty(t *testing.T) {
	onBothBackends(t, 3, func(t *testing.T, nodes *Nodes) {
		require.Equal(t, 3, nodes.Len())
		hosts := map[string]bool{}
		for i, u := range nodes.URLs() {
			parsed, err := url.Parse(u)
			require.NoError(t, err)
			require.Equal(t, "redis", parsed.Scheme)
			require.Equal(t, "127.0.0.1", parsed.Hostname())
			require.Equal(t, u, "redis://"+parsed.Host, "neither user nor path")
			hosts[parsed.Host] = true
			require.Equal(t, int64(0), do(t, nodes, i, "DBSIZE"))
		}
		require.Len(t, hosts, 3)
		do(t, nodes, 1, "SET", "k", "v")
		require.Equal(t, "v", do(t, nodes, 1, "GET", "k"))
		require.Nil(t, do(t, nodes, 0, "GET", "k"))
		require.Nil(t, do(t, nodes, 2, "GET", "k"))
	})
}

// Some clients ask, and after a yes they would look for the other nodes of the cluster.
func TestNodes_AreNoCluster(t *testing.T) {
	onBothBackends(t, 1, func(t *testing.T, nodes *Nodes) {
		_, err := nodes.Do(0, "CLUSTER", "SLOTS")
		require.ErrorContains(t, err, "ERR This instance has cluster support disabled")
	})
}

// A caller may change the slice that URLs returned.
func TestNodes_URLsAreTheCallersOwn(t *testing.T) {
	nodes := startFor(t, 1, StartInProcess)
	nodes.URLs()[0] = "scribble"
	require.Contains(t, nodes.URLs()[0], "redis://127.0.0.1:")
}

func TestNodes_KeysExpireByTheWallClock(t *testing.T) {
	t.Parallel()
	onBothBackends(t, 1, func(t *testing.T, nodes *Nodes) {
		do(t, nodes, 0, "SET", "short", "v", "PX", "20")
		do(t, nodes, 0, "SET", "long", "v", "PX", "600000")
		require.Eventually(t, func() bool {
			n, err := nodes.Do(0, "EXISTS", "short")
			return err == nil && n == int64(0)
		}, eventually, pollEvery)
		require.Positive(t, do(t, nodes, 0, "PTTL", "long"))
	})
}

func TestFreeze_NodeAnswersOnlyAfterThaw(t *testing.T) {
	t.Parallel()
	onBothBackends(t, 2, func(t *testing.T, nodes *Nodes) {
		before := dialNode(t, nodes, 0)
		_, err := before.Ask("SET", "k", "v")
		require.NoError(t, err)

		require.NoError(t, nodes.Freeze(0))
		require.NoError(t, nodes.Freeze(0), "freezing twice is freezing")
		before.send("GET", "k")
		after := dialNode(t, nodes, 0) // the kernel still accepts
		after.send("GET", "k")
		before.requireSilence()
		after.requireSilence()
		require.Equal(t, "PONG", do(t, nodes, 1, "PING"), "only node 0 is frozen")

		require.NoError(t, nodes.Thaw(0))
		require.NoError(t, nodes.Thaw(0), "thawing twice is thawing")
		for _, c := range []client{before, after} {
			reply, err := c.receive()
			require.NoError(t, err)
			require.Equal(t, "v", reply)
		}
	})
}

// A client gives up on a frozen node, and the node still executes its command.
func TestFreeze_AbandonedCommandIsExecutedAfterThaw(t *testing.T) {
	onBothBackends(t, 1, func(t *testing.T, nodes *Nodes) {
		c := dialNode(t, nodes, 0)
		require.NoError(t, nodes.Freeze(0))
		c.send("SET", "orphan", "v", "PX", "600000")
		require.NoError(t, c.Close())
		require.NoError(t, nodes.Thaw(0))
		require.Eventually(t, func() bool {
			v, err := nodes.Do(0, "GET", "orphan")
			return err == nil && v == "v"
		}, eventually, pollEvery)
	})
}

func TestFreeze_UnderLoadLosesNothing(t *testing.T) {
	onBothBackends(t, 1, func(t *testing.T, nodes *Nodes) {
		const clients, each = 4, 200
		var wg sync.WaitGroup
		errs := make([]error, clients)
		for i := range clients {
			c := dialNode(t, nodes, 0)
			wg.Go(func() {
				for k := range each {
					if _, err := c.Ask("SET", fmt.Sprint(i, "-", k), "v"); err != nil {
						errs[i] = err
						return
					}
				}
			})
		}
		for range 20 {
			require.NoError(t, nodes.Freeze(0))
			require.NoError(t, nodes.Thaw(0))
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		require.Equal(t, int64(clients*each), do(t, nodes, 0, "DBSIZE"))
	})
}

func TestKill_BreaksConnectionsAndRefusesNewOnes(t *testing.T) {
	onBothBackends(t, 2, func(t *testing.T, nodes *Nodes) {
		c := dialNode(t, nodes, 0)
		_, err := c.Ask("PING")
		require.NoError(t, err)

		require.NoError(t, nodes.Kill(0))
		require.NoError(t, nodes.Kill(0), "killing the dead is nothing")
		_, err = c.receive()
		require.Error(t, err)
		_, err = net.Dial("tcp", nodes.nodes[0].port.addr)
		requireRefused(t, err)
		_, err = nodes.Do(0, "PING")
		requireRefused(t, err)

		require.ErrorIs(t, nodes.Freeze(0), errNotRunning)
		require.ErrorIs(t, nodes.Thaw(0), errNotRunning)
		require.Equal(t, "PONG", do(t, nodes, 1, "PING"), "only node 0 is dead")
	})
}

// The kill must not answer a command that a frozen node was sent.
func TestKill_FrozenNodeAnswersNothing(t *testing.T) {
	onBothBackends(t, 1, func(t *testing.T, nodes *Nodes) {
		waiting := make([]client, 8)
		for i := range waiting {
			waiting[i] = dialNode(t, nodes, 0)
			_, err := waiting[i].Ask("PING")
			require.NoError(t, err)
		}
		require.NoError(t, nodes.Freeze(0))
		for _, c := range waiting {
			c.send("SET", "k", "v")
		}
		require.NoError(t, nodes.Kill(0))
		for _, c := range waiting {
			reply, err := c.receive()
			require.Error(t, err, "answered %v", reply)
		}
	})
}

func TestRestart_IsEmptyAtTheSameAddress(t *testing.T) {
	states := map[string]func(*Nodes, int) error{
		"running": func(*Nodes, int) error { return nil },
		"frozen":  (*Nodes).Freeze,
		"killed":  (*Nodes).Kill,
	}
	for name, bring := range states {
		t.Run(name, func(t *testing.T) {
			onBothBackends(t, 1, func(t *testing.T, nodes *Nodes) {
				urls := nodes.URLs()
				sha := do(t, nodes, 0, "SCRIPT", "LOAD", "return 1").(string)
				do(t, nodes, 0, "SET", "k", "v")
				c := dialNode(t, nodes, 0)
				require.NoError(t, bring(nodes, 0))

				require.NoError(t, nodes.Restart(0))
				require.Equal(t, urls, nodes.URLs())
				require.Equal(t, int64(0), do(t, nodes, 0, "DBSIZE"))
				_, err := nodes.Do(0, "EVALSHA", sha, "0")
				require.ErrorContains(t, err, "NOSCRIPT")
				_, err = c.receive()
				require.Error(t, err, "a connection to the server before")
				require.NoError(t, nodes.Freeze(0), "the new server can be frozen")
			})
		})
	}
}

func TestFlush_EmptiesOneNode(t *testing.T) {
	onBothBackends(t, 2, func(t *testing.T, nodes *Nodes) {
		for i := range 2 {
			do(t, nodes, i, "SET", "k", "v")
		}
		require.NoError(t, nodes.Flush(0))
		require.Equal(t, int64(0), do(t, nodes, 0, "DBSIZE"))
		require.Equal(t, int64(1), do(t, nodes, 1, "DBSIZE"))
	})
}

func TestNodes_BadArgumentsAreErrors(t *testing.T) {
	for _, n := range []int{0, -1} {
		_, err := Start(n)
		require.Error(t, err)
		_, err = StartInProcess(n)
		require.Error(t, err)
	}
	nodes := startFor(t, 2, StartInProcess)
	for _, i := range []int{-1, 2} {
		for _, err := range everyCall(nodes, i) {
			require.ErrorContains(t, err, "no node")
		}
	}
	_, err := nodes.Do(0)
	require.ErrorContains(t, err, "no command")
}

func TestClose_ReturnsErrorsAfterwardsAndLeaksNothing(t *testing.T) {
	onBothBackends(t, 3, func(t *testing.T, nodes *Nodes) {
		c := dialNode(t, nodes, 0)
		require.NoError(t, nodes.Freeze(0))
		c.send("SET", "k", "v")
		require.NoError(t, nodes.Kill(1))
		require.NoError(t, nodes.Close())
		require.NoError(t, nodes.Close())
		for i := range nodes.Len() {
			for _, err := range everyCall(nodes, i) {
				require.ErrorIs(t, err, errClosed)
			}
		}
	})
}

func TestClose_LeavesNoGoroutine(t *testing.T) {
	RequireRedis(t)
	ignore := goleak.IgnoreCurrent()
	for _, start := range []func(int) (*Nodes, error){Start, StartInProcess} {
		nodes, err := start(3)
		require.NoError(t, err)
		do(t, nodes, 0, "SET", "k", "v")
		require.NoError(t, nodes.Freeze(1))
		require.NoError(t, nodes.Restart(2))
		require.NoError(t, nodes.Close())
		goleak.VerifyNone(t, ignore)
	}
}

// All calls at the same time cause no deadlock and no race, and nothing outlives Close.
func TestNodes_ConcurrentUse(t *testing.T) {
	t.Parallel()
	onBothBackends(t, 2, func(t *testing.T, nodes *Nodes) {
		var wg sync.WaitGroup
		for i := range nodes.Len() {
			for _, act := range []func(int) error{
				nodes.Freeze, nodes.Thaw, nodes.Kill,
				nodes.Restart, nodes.Thaw,
			} {
				wg.Go(func() {
					for range 5 {
						_ = act(i) // may well meet a dead node
					}
				})
			}
			wg.Go(func() {
				for range 20 {
					_ = nodes.Thaw(i)
					if c, err := dial(nodes.nodes[i].port.addr, 20*pollEvery); err == nil {
						_, _ = c.Ask("SET", "k", "v")
						_ = c.Close()
					}
				}
			})
		}
		wg.Wait()
		for i := range nodes.Len() {
			require.NoError(t, nodes.Restart(i))
			require.Equal(t, int64(0), do(t, nodes, i, "DBSIZE"))
		}
		for range 2 { // closing twice at once
			wg.Go(func() { _ = nodes.Close() })
			wg.Go(func() { _ = nodes.Restart(0) })
			wg.Go(func() { _ = nodes.Freeze(1) })
		}
		wg.Wait()
		_, err := net.Dial("tcp", nodes.nodes[0].port.addr)
		requireRefused(t, err)
	})
}

// A Restart that gets the lock after Close must not start a server, which nothing would end.
func TestClose_NoRestartAfterwards(t *testing.T) {
	nodes, err := StartInProcess(1)
	require.NoError(t, err)
	nd, err := nodes.node(0) // this far before Close
	require.NoError(t, err)
	require.NoError(t, nodes.Close())
	require.ErrorIs(t, nodes.changeState(nd, (*node).restart), errClosed)
	require.Nil(t, nd.server)
}

// everyCall returns the error of every method that needs node i.
func everyCall(nodes *Nodes, i int) []error {
	_, asked := nodes.Do(i, "PING")
	_, listed := nodes.Keys(i, "")
	return []error{
		asked, listed, nodes.Freeze(i), nodes.Thaw(i), nodes.Kill(i), nodes.Restart(i),
		nodes.Flush(i),
	}
}
