package bench

import (
	"context"
	"fmt"
	"strings"
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

// Goal: the checker sees what a demoted master does that votes at once, and the restart guard
// prevents it. Half of the locks that are granted while the copy gets older are asked for again
// within a second, while their holders keep them.
func TestFailover_ADemotedMasterThatVotesIsAViolation(t *testing.T) {
	for guard, violated := range map[lockpipe.GuardMode]bool{
		lockpipe.GuardOff: true, lockpipe.GuardAuto: false,
	} {
		t.Run(guard.String(), func(t *testing.T) {
			t.Parallel()
			cfg := stricken(t, Single, "demote:1@300ms+10ms")
			cfg.Nodes, cfg.guard, cfg.TTL, cfg.Duration = "local:1", guard, 3*time.Second, 2*time.Second
			cfg.Callers, cfg.Rate, cfg.Keys, cfg.Hold = 400, 200, 100, 2500*time.Millisecond
			r, err := Run(t.Context(), cfg)
			require.NoError(t, err)
			require.NotZero(t, r.Acquired)
			require.Equal(t, violated, r.Violations > 0, "%d violations", r.Violations)
			require.Zero(t, r.LeftoverKeys)
		})
	}
}

// requireUndone requires that the node is a master without a replica, and that its address leads to it.
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
				v := &victim{nodes: lockpipetest.StartRealT(t, 1), routes: &routes{}}
				defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
				require.NoError(t, v.do("SET before 1"))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f := &faulter{start: time.Now()}
				f.working.Go(func() { f.harm(ctx, v, []fault{{action: a, node: 1, length: length}}) })
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
	v := &victim{nodes: lockpipetest.StartRealT(t, 1), routes: &routes{}}
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
	v := &victim{nodes: lockpipetest.StartRealT(t, 1), routes: &routes{}}
	replica, err := v.startReplica()
	require.NoError(t, err)
	undo, err := v.swapWith(replica)
	require.NoError(t, err)
	require.NoError(t, replica.nodes.Kill(0))
	require.ErrorContains(t, undo(), "connection refused")
	requireUndone(t, v)
}
