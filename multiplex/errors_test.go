package multiplex

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/restartguard"
	"github.com/stretchr/testify/require"
)

// The goal: the text about held keys says on which nodes, a bounded number of them, and counts them
// in good grammar.
func TestErrors_AHeldErrorNamesTheNodes(t *testing.T) {
	text := func(keys, nodes int) string {
		e := &HeldError{}
		for i := range keys {
			e.Keys = append(e.Keys, fmt.Sprint("k", i))
		}
		for i := range nodes {
			e.Nodes = append(e.Nodes, fmt.Sprint("n", i))
		}
		return e.Error()
	}
	require.Equal(t, `lockpipe: "k0" held by another caller of this client`, text(1, 0))
	require.Equal(t, `lockpipe: "k0" held by another on 1 node (n0)`, text(1, 1))
	require.Equal(t, `lockpipe: "k0" "k1" "k2" held by another on 2 nodes (n0, n1)`, text(4, 2))
	require.Equal(t, `lockpipe: "k0" held by another on 6 nodes (n0, n1, n2, n3, n4, ...)`,
		text(1, 6))
}

// The goal: the text about a missing quorum begins with what a reader wants to know first: how many
// nodes granted, how many are needed, and what the others did.
func TestErrors_AQuorumErrorCountsFirst(t *testing.T) {
	e := &QuorumError{Need: 4, Granted: 1, Refused: 1, Unknown: 5, Nodes: []*NodeError{
		{Node: "a", Err: errors.New("refused"), down: true},
		{Node: "b", Err: &timeoutError{50 * time.Millisecond}},
		{Node: "c", Err: &restartguard.Quarantine{Reason: whyRestarted}},
		{Node: "d", Err: errors.New("OOM")},
		{Node: "e", Err: errors.New("refused"), down: true},
	}}
	require.Regexp(t, `^lockpipe: no quorum: 1 of 7 nodes granted, 4 needed; `+
		`1 refused, 1 quarantined, 2 down, 1 timed out, 1 failed: `+
		`a: refused; b: no answer within 50ms; c: quarantined until .*; d: OOM; e: refused$`,
		e.Error())
	e = &QuorumError{Need: 1, Unknown: 1, Nodes: []*NodeError{{Node: "a", Err: errors.New("OOM")}}}
	require.EqualError(t, e, "lockpipe: no quorum: 0 of 1 node granted, 1 needed; 1 failed: a: OOM")
}

// The goal: the counts are those of what the nodes did: one that is down, one that hangs, and one
// that answers with an error, after which no other answer is needed.
func TestErrors_AQuorumErrorKnowsWhatTheNodesDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		m.nodes[0].err = errors.New("connection refused")
		m.nodes[0].state.Store(int32(NodeDown))
		goOn := hang(m.nodes[1])
		err := wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context())
		require.EqualError(t, err, "lockpipe: no quorum: 1 of 3 nodes granted, 2 needed; 1 "+
			"down, 1 timed out: "+
			"node0: connection refused; node1: no answer within 20ms")
		goOn()
		time.Sleep(time.Second)
	})
	failed := []*NodeError{{Node: "a", Err: errors.New("OOM")}, {Node: "b", Err: errNotNeeded}}
	e := &QuorumError{Need: 2, Granted: 1, Unknown: 2, Nodes: failed}
	require.ErrorContains(t, e, "1 of 3 nodes granted, 2 needed; 1 not waited for, 1 failed: ")
}
