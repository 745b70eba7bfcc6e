package nodes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: connections that are killed under load cost some calls their quorum. No lease is lost,
// and nothing is left.
func TestNodes_ConnectionsKilledUnderLoadLeaveNothing(t *testing.T) {
	kit.SkipIfShort(t, "connections that are killed under load")
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	load := kit.StartLoad(t, c, 16,
		func(string) string { return fmt.Sprint("shared:", rand.N(20)) })
	for round := range 30 {
		load.Continues(t, 20)
		kit.Do(t, nodes, round%nodes.Len(), "CLIENT", "KILL", "TYPE", "normal")
		if round%5 == 0 { // a majority at once
			kit.Do(t, nodes, (round+1)%nodes.Len(), "CLIENT", "KILL", "TYPE", "normal")
		}
	}
	for _, err := range load.Stop() {
		require.True(t, kit.AnyOf(err, lockpipe.ErrHeld, lockpipe.ErrNoQuorum), "%v", err)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, kit.AnyOf(err, lockpipe.ErrLost, lockpipe.ErrExpired, lockpipe.ErrInvalid,
			lockpipe.ErrOverloaded), "%v", err)
	}
	kit.CaughtUp(t, c, nodes)
	kit.NothingLeft(t, nodes)
}

// The goal: a server that forgets the scripts under load gets them again, and no caller notices.
func TestNodes_ForgottenScriptsAreNotNoticed(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	load := kit.StartLoad(t, c, 16, func(name string) string { return name })
	for range 10 {
		load.Continues(t, 20)
		for i := range nodes.Len() {
			kit.Do(t, nodes, i, "SCRIPT", "FLUSH")
		}
	}
	for _, err := range load.Stop() {
		require.NoError(t, err)
	}
	kit.CaughtUp(t, c, nodes)
	kit.NothingLeft(t, nodes)
}

// The goal: a node that forgets all its keys under load, again and again, ends only leases that had
// no more than a quorum. Their extensions find them lost, or get no quorum because the node has no
// vote. Nothing else fails, and nothing is left.
func TestNodes_OneForgetsAllKeysUnderLoad(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	load := kit.StartLoad(t, c, 16, func(name string) string { return name })
	for range 10 {
		load.Continues(t, 20)
		require.NoError(t, nodes.Flush(0))
	}
	for _, err := range load.Stop() {
		require.True(t, kit.AnyOf(err, lockpipe.ErrLost, lockpipe.ErrNoQuorum), "%v", err)
	}
	kit.NothingLeft(t, nodes)
}
