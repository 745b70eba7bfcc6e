package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// changesOfRoles are the faults in which another server is the master for a time.
var changesOfRoles = []action{demote, failover}

// Goal: demotions and failovers happen while the load runs, in several scenarios. No key has two
// holders, and nothing is left.
func TestFailover_RolesChangeUnderLoad(t *testing.T) {
	for _, s := range []Scenario{Single, Hold} {
		t.Run(string(s), func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			list := []string{"demote:1@100ms+300ms", "failover:2@100ms+600ms"}
			cfg := stricken(t, s, strings.Join(list, ","))
			cfg.TTL = 2 * time.Second
			r, err := Run(t.Context(), cfg)
			require.NoError(t, err)
			requireFaults(t, r, list...)
		})
	}
}

// contest is two Clients that take the same key of one node, and what the checker says of that.
type contest struct {
	clients [2]*lockpipe.Client
	held    *holders
}

// newContest returns a contest of Clients that the node has admitted.
func newContest(t *testing.T, cfg lockpipe.Config) *contest {
	c := &contest{held: newHolders(1, time.Now())}
	cfg.MaxTTL, cfg.NodeTimeout, cfg.Logger = cfg.TTL, cfg.TTL/2, slog.New(slog.DiscardHandler)
	for i := range c.clients {
		client, err := lockpipe.New(cfg)
		require.NoError(t, err)
		c.clients[i] = client
		t.Cleanup(func() {
			_ = closeClients(context.Background(), []*lockpipe.Client{client}, abandonTimeout)
		})
		require.NoError(t, takeOne(t.Context(), client, "ready"))
	}
	return c
}

// take lets a Client wait until it holds the key.
func (c *contest) take(t *testing.T, client int) {
	lease, err := c.clients[client].Acquire(t.Context(), "k")
	require.NoError(t, err)
	c.held.claim(0, uint32(client+1), lease.Until())
}

// guards are the modes in which a contest is held, each with a TTL. Without the guard the first
// lease must last until the second one, on any machine.
var guards = map[lockpipe.GuardMode]time.Duration{
	lockpipe.GuardOff: time.Minute, lockpipe.GuardAuto: 4 * time.Second,
}

// Goal: if a demoted master votes at once, a lock that it forgot has two holders, and the checker
// sees them. The restart guard prevents it, also if no client could look at the server meanwhile.
func TestFailover_ADemotedMasterThatVotesIsAViolation(t *testing.T) {
	for guard, ttl := range guards {
		t.Run(guard.String(), func(t *testing.T) {
			t.Parallel()
			v := &victim{nodes: lockpipetest.StartRealT(t, 1)}
			var away sync.RWMutex // held for writing while nobody can connect
			c := newContest(t, lockpipe.Config{
				Nodes: v.nodes.URLs(), TTL: ttl, RestartGuard: guard,
				Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					away.RLock()
					defer away.RUnlock()
					return (&net.Dialer{}).DialContext(ctx, network, address)
				},
			})
			v.age = func() {
				c.take(t, 0)
				away.Lock()
			}
			undo, err := v.strike(demote)
			require.NoError(t, err)
			require.NoError(t, undo())
			away.Unlock()
			c.take(t, 1)
			require.Equal(t, guard == lockpipe.GuardOff, c.held.violations.Load() > 0)
		})
	}
}

// Goal: the same holds if a replica that lagged takes over behind the address, and gives the role
// back at once: the node has its own marker then, and the replica's keys.
func TestFailover_AMasterThatGetsItsRoleBackHasForgotten(t *testing.T) {
	for guard, ttl := range guards {
		t.Run(guard.String(), func(t *testing.T) {
			t.Parallel()
			v := &victim{nodes: lockpipetest.StartRealT(t, 1), routes: &routes{}}
			c := newContest(t, lockpipe.Config{
				Nodes: v.nodes.URLs(), TTL: ttl, RestartGuard: guard, Dial: v.routes.dial,
			})
			replica, err := v.startReplica()
			require.NoError(t, err)
			require.NoError(t, replica.do("REPLICAOF NO ONE"))
			c.take(t, 0)
			v.routes.servers.Store(v.address(), replica.address())
			require.NoError(t, v.follow(replica))
			require.NoError(t, replica.yieldTo(v))
			v.routes.servers.Delete(v.address())
			require.NoError(t, replica.nodes.Close())
			c.take(t, 1)
			require.Equal(t, guard == lockpipe.GuardOff, c.held.violations.Load() > 0)
		})
	}
}

// requireUndone requires that the node is a master, and that its address leads to it.
func requireUndone(t *testing.T, v *victim) {
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
	for _, a := range changesOfRoles {
		for _, length := range []time.Duration{time.Millisecond, time.Hour} {
			t.Run(fmt.Sprintf("%s for %v", a, length), func(t *testing.T) {
				v := &victim{
					nodes: lockpipetest.StartRealT(t, 1), routes: &routes{},
					age: func() {},
				}
				defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
				require.NoError(t, v.do("SET before 1"))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f := &faulter{start: time.Now()}
				f.working.Go(func() {
					f.harm(ctx, v, []fault{{
						action: a, node: 1,
						length: length,
					}})
				})
				if length == time.Hour {
					require.NoError(t, awaitRoles(v.inSync))
					cancel()
				}
				f.working.Wait()
				require.Empty(t, f.errs)
				require.Len(t, f.done, 1)
				require.Equal(t, string(a), f.done[0].Action)
				requireUndone(t, v)
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
	v := &victim{nodes: lockpipetest.StartRealT(t, 1), routes: &routes{}, age: func() {}}
	require.NoError(t, v.do("SET before 1"))
	behind := func() *nodeConn {
		conn, err := v.routes.dial(t.Context(), "tcp", v.address())
		require.NoError(t, err)
		return newNodeConn(t.Context(), conn)
	}
	undo, err := v.failOver()
	require.NoError(t, err)
	require.ErrorContains(t, v.do("SET during 1"), "READONLY")
	there := behind()
	defer there.close()
	for _, command := range []string{"GET before", "SET during 1"} {
		_, err := there.do(strings.Fields(command)...)
		require.NoError(t, err)
	}
	require.NoError(t, undo())
	requireUndone(t, v)
	kept, err := v.nodes.Do(0, "GET", "during")
	require.NoError(t, err)
	require.Equal(t, "1", kept)
	_, err = there.do("PING")
	require.Error(t, err, "nobody may go on with the server that is no master any more")
}

// Goal: a node is a master again even if the server that took its place has died.
func TestFailover_TheNodeIsAMasterAgainWithoutItsReplica(t *testing.T) {
	v := &victim{nodes: lockpipetest.StartRealT(t, 1), routes: &routes{}, age: func() {}}
	replica, err := v.startReplica()
	require.NoError(t, err)
	undo, err := v.swapWith(replica)
	require.NoError(t, err)
	require.NoError(t, replica.nodes.Kill(0))
	require.ErrorContains(t, undo(), "connection refused")
	requireUndone(t, v)
}
