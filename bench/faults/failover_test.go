package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/check"
	"github.com/lockpipe/lockpipe/internal/servertest"
)

// contest is two Clients that take the same key of one node, and what the checker says about that.
type contest struct {
	clients [2]*lockpipe.Client
	owners  *check.Ownership
}

// newContest returns a contest of Clients that the node has admitted.
func newContest(t *testing.T, cfg lockpipe.Config) *contest {
	c := &contest{owners: check.NewOwnership(1, time.Now())}
	cfg.MaxTTL, cfg.NodeTimeout, cfg.Logger = cfg.TTL, cfg.TTL/2, slog.New(slog.DiscardHandler)
	for i := range c.clients {
		client, err := lockpipe.New(cfg)
		require.NoError(t, err)
		c.clients[i] = client
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = client.Close(ctx)
		})
		lease, err := client.Acquire(t.Context(), "ready")
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
	}
	return c
}

// acquire lets a Client wait until it holds the key.
func (c *contest) acquire(t *testing.T, client int) {
	lease, err := c.clients[client].Acquire(t.Context(), "k")
	require.NoError(t, err)
	c.owners.Claim(0, uint32(client+1), lease.Until())
}

// guards are the modes in which a contest is held, each with a TTL. Without the guard the first
// lease must last until the second one, on any machine.
var guards = map[lockpipe.GuardMode]time.Duration{
	lockpipe.GuardOff: time.Minute, lockpipe.GuardAuto: 4 * time.Second,
}

// Goal: if a demoted master votes at once, a lock that it forgot has two holders, and the checker
// sees them. The restart guard prevents it, also if no client could look at the server meanwhile.
func TestFailover_ADemotedMasterThatVotesIsAViolation(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for a quarantine")
	}
	t.Parallel()
	for guard, ttl := range guards {
		t.Run(guard.String(), func(t *testing.T) {
			t.Parallel()
			v := &target{nodes: servertest.Start(t, 1)}
			var away sync.RWMutex // held for writing while nobody can connect
			c := newContest(t, lockpipe.Config{
				Nodes: v.nodes.URLs(), TTL: ttl, RestartGuard: guard,
				Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					away.RLock()
					defer away.RUnlock()
					return (&net.Dialer{}).DialContext(ctx, network, address)
				},
			})
			v.growOld = func() {
				c.acquire(t, 0)
				away.Lock()
			}
			revert, err := v.inject(demote)
			require.NoError(t, err)
			require.NoError(t, revert())
			away.Unlock()
			c.acquire(t, 1)
			require.Equal(t, guard == lockpipe.GuardOff, c.owners.Violations() > 0)
		})
	}
}

// Goal: the same holds if a replica that lagged takes over behind the address, and gives the role
// back at once: the node has its own marker then, and the replica's keys.
func TestFailover_AMasterThatGetsItsRoleBackHasForgotten(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for a quarantine")
	}
	t.Parallel()
	for guard, ttl := range guards {
		t.Run(guard.String(), func(t *testing.T) {
			t.Parallel()
			v := &target{nodes: servertest.Start(t, 1), routes: &Routes{}}
			c := newContest(t, lockpipe.Config{
				Nodes: v.nodes.URLs(), TTL: ttl, RestartGuard: guard, Dial: v.routes.Dial,
			})
			replica, err := v.startReplica()
			require.NoError(t, err)
			require.NoError(t, replica.do("REPLICAOF NO ONE"))
			c.acquire(t, 0)
			v.routes.servers.Store(v.address(), replica.address())
			require.NoError(t, v.replicate(replica))
			require.NoError(t, replica.yieldTo(v))
			v.routes.servers.Delete(v.address())
			require.NoError(t, replica.nodes.Close())
			c.acquire(t, 1)
			require.Equal(t, guard == lockpipe.GuardOff, c.owners.Violations() > 0)
		})
	}
}

// requireReverted requires that the node is a master, and that its address leads to it.
func requireReverted(t *testing.T, v *target) {
	t.Helper()
	reply, err := v.nodes.Do(v.number, "ROLE")
	require.NoError(t, err)
	require.Equal(t, "master", reply.([]any)[0])
	_, moved := v.routes.servers.Load(v.address())
	require.False(t, moved)
}

// Goal: a node is a master again when the fault is over, also if the run ends meanwhile. The server
// that took its place is gone.
func TestFailover_TheNodeIsAMasterAgain(t *testing.T) {
	for _, a := range []action{demote, failover} {
		for _, length := range []time.Duration{time.Millisecond, time.Hour} {
			t.Run(fmt.Sprintf("%s for %v", a, length), func(t *testing.T) {
				v := &target{
					nodes: servertest.Start(t, 1), routes: &Routes{},
					growOld: func() {},
				}
				defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
				require.NoError(t, v.do("SET before 1"))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f := &runner{start: time.Now()}
				f.working.Go(func() {
					f.runFaults(ctx, v, []Fault{{
						action: a, node: 1, length: length,
					}})
				})
				if length == time.Hour {
					require.NoError(t, awaitRole(v.inSync))
					cancel()
				}
				f.working.Wait()
				require.Empty(t, f.errs)
				require.Len(t, f.results, 1)
				require.Equal(t, a.name, f.results[0].Action)
				requireReverted(t, v)
				require.NoError(t, v.do("SET after 1"))
				kept, err := v.nodes.Do(0, "GET", "before")
				require.NoError(t, err)
				require.Equal(t, "1", kept)
			})
		}
	}
}

// Goal: while a node has failed over, its address leads to the server that is the master, which has
// all that the node had. The node itself refuses writes.
func TestFailover_TheAddressLeadsToTheMaster(t *testing.T) {
	v := &target{nodes: servertest.Start(t, 1), routes: &Routes{}, growOld: func() {}}
	require.NoError(t, v.do("SET before 1"))
	revert, err := v.failOver()
	require.NoError(t, err)
	require.ErrorContains(t, v.do("SET during 1"), "READONLY")
	there, err := v.routes.Dial(t.Context(), "tcp", v.address())
	require.NoError(t, err)
	defer there.Close()
	replies := bufio.NewReader(there)
	for _, step := range []struct{ command, reply string }{
		{"GET before", "$1"}, {"", "1"}, {"SET during 1", "+OK"},
	} {
		_, err := io.WriteString(there, step.command+"\r\n")
		require.NoError(t, err)
		line, err := replies.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, step.reply, strings.TrimSpace(line))
	}
	require.NoError(t, revert())
	requireReverted(t, v)
	kept, err := v.nodes.Do(0, "GET", "during")
	require.NoError(t, err)
	require.Equal(t, "1", kept)
	_, _ = io.WriteString(there, "PING\r\n")
	_, err = replies.ReadString('\n')
	require.Error(t, err, "nobody may still use the server that is no master any more")
}

// Goal: a node is a master again even if the server that took its place has died.
func TestFailover_TheNodeIsAMasterAgainWithoutItsReplica(t *testing.T) {
	v := &target{nodes: servertest.Start(t, 1), routes: &Routes{}, growOld: func() {}}
	replica, err := v.startReplica()
	require.NoError(t, err)
	revert, err := v.swapWith(replica)
	require.NoError(t, err)
	require.NoError(t, replica.nodes.Kill(0))
	require.ErrorContains(t, revert(), "connection refused")
	requireReverted(t, v)
}
