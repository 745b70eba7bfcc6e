package lockpipe_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: connections that are killed under load cost some calls their quorum. No lease is lost,
// and nothing is left.
func TestNodes_ConnectionsKilledUnderLoadLeaveNothing(t *testing.T) {
	skipIfShort(t, "connections that are killed under load")
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := connected(t, newClient(t, nodes))
	load := startLoad(t, c, 16, func(string) string { return fmt.Sprint("shared:", rand.N(20)) })
	for round := range 30 {
		load.continues(t, 20)
		do(t, nodes, round%nodes.Len(), "CLIENT", "KILL", "TYPE", "normal")
		if round%5 == 0 { // a majority at once
			do(t, nodes, (round+1)%nodes.Len(), "CLIENT", "KILL", "TYPE", "normal")
		}
	}
	for _, err := range load.stop() {
		require.True(t, anyOf(err, lockpipe.ErrHeld, lockpipe.ErrNoQuorum), "%v", err)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, anyOf(err, lockpipe.ErrLost, lockpipe.ErrExpired, lockpipe.ErrInvalid,
			lockpipe.ErrOverloaded), "%v", err)
	}
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes)
}

// The goal: a server that forgets the scripts under load gets them again, and no caller notices.
func TestNodes_ForgottenScriptsAreNotNoticed(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := connected(t, newClient(t, nodes))
	load := startLoad(t, c, 16, func(name string) string { return name })
	for range 10 {
		load.continues(t, 20)
		for i := range nodes.Len() {
			do(t, nodes, i, "SCRIPT", "FLUSH")
		}
	}
	for _, err := range load.stop() {
		require.NoError(t, err)
	}
	caughtUp(t, c, nodes)
	nothingLeft(t, nodes)
}

// The goal: a node that forgets all its keys under load, again and again, ends only leases that had
// no more than a quorum. Their extensions find them lost, or get no quorum because the node has no
// vote. Nothing else fails, and nothing is left.
func TestNodes_OneForgetsAllKeysUnderLoad(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := connected(t, newClient(t, nodes))
	load := startLoad(t, c, 16, func(name string) string { return name })
	for range 10 {
		load.continues(t, 20)
		require.NoError(t, nodes.Flush(0))
	}
	for _, err := range load.stop() {
		require.True(t, anyOf(err, lockpipe.ErrLost, lockpipe.ErrNoQuorum), "%v", err)
	}
	nothingLeft(t, nodes)
}
