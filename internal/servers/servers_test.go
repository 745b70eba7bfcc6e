package servers

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// run is a run_id.
func run(digit string) string { return strings.Repeat(digit, 39) + "0" }

// connection is one that nothing is sent on.
type connection struct{ net.Conn }

// groupOf returns the group of as many nodes as names.
func groupOf(names ...string) *Group { return new(Servers).Group(names) }

// taken makes a server a node's, and wants that to succeed.
func taken(t *testing.T, g *Group, runID string, node int) (conn net.Conn, moved bool,
	previousID string,
) {
	t.Helper()
	conn = &connection{}
	since, previousID, err := g.Take(runID, node, conn)
	require.NoError(t, err)
	return conn, !since.IsZero(), previousID
}

// The goal: a server is one node's at a time. A node knows whether its server may have been
// another's, and the number of this client's last connection there, whichever node had it.
func TestServers_AServerHasOneNode(t *testing.T) {
	g := groupOf("a", "b")
	a, moved, previousID := taken(t, g, run("1"), 0)
	require.True(t, moved, "the first server of a node")
	require.Empty(t, previousID)
	g.Admitted(a, "7")
	_, _, err := g.Take(run("1"), 1, &connection{})
	require.EqualError(t, err, "is the same server as a, and one server has one vote: give each "+
		"node a server of its own")
	b, _, _ := taken(t, g, run("2"), 1)

	g.Closed(a)
	a, moved, previousID = taken(t, g, run("1"), 0)
	require.True(t, moved, "still since then")
	require.Equal(t, "7", previousID)
	g.Closed(a)
	g.Closed(b)
	b, moved, previousID = taken(t, g, run("1"), 1)
	require.True(t, moved)
	require.Equal(t, "7", previousID, "also where it was not admitted since")
	g.Closed(b)
	_, moved, _ = taken(t, g, run("1"), 0)
	require.True(t, moved, "node b had it in between")
}

// The goal: a newer connection of the node to its server does not end with the old one.
func TestServers_TheNewerConnectionCounts(t *testing.T) {
	g := groupOf("a", "b")
	old, _, _ := taken(t, g, run("1"), 0)
	_, _, _ = taken(t, g, run("1"), 0)
	g.Closed(old)
	_, _, err := g.Take(run("1"), 1, &connection{})
	require.Error(t, err)
}

// The goal: a server without a run_id may be any other, and what is not unique is no run_id.
func TestServers_AServerWithoutARunIDMayBeAnyOther(t *testing.T) {
	for _, none := range []string{
		"", "x", strings.Repeat("0", 40), strings.Repeat("a", 40),
		run("1") + "0", run("G"),
	} {
		g := groupOf("a", "b", "c")
		a, _, _ := taken(t, g, run("1"), 0)
		b, _, _ := taken(t, g, none, 1)
		third, _, _ := taken(t, g, run("3"), 2)
		require.Empty(t, g.Use(a))
		require.Equal(t, []int{0}, g.Use(b))
		require.Equal(t, []int{1}, g.Use(third), "the other is known to differ")
		g.Closed(a)
		require.Empty(t, g.Use(a), "closed meanwhile")
		g.Closed(b)
		b, _, _ = taken(t, g, none, 1)
		require.False(t, g.ToldApart(b, time.Time{}).IsZero(), "it may be the one that node a had")
		g = groupOf("a", "b")
		a, _, _ = taken(t, g, run("1"), 0)
		b, _, _ = taken(t, g, none, 1)
		require.Zero(t, g.ToldApart(b, time.Time{}), "no other has lost any")
		g.Use(a)
		g.Closed(a)
		require.False(t, g.ToldApart(b, time.Time{}).IsZero(), "another was lost before they were told apart")
	}
}

// The goal: a quarantined server stays its node's between two looks, until that finds another
// server or none.
func TestServers_AQuarantinedServerStaysTheNodes(t *testing.T) {
	g := groupOf("a", "b")
	take := func(runID string, node int, waits bool) error {
		conn := &connection{}
		_, _, err := g.Take(runID, node, conn)
		if waits {
			g.Outlasts(conn)
		}
		g.Closed(conn)
		return err
	}
	require.NoError(t, take(run("1"), 0, true))
	require.Error(t, take(run("1"), 1, false))
	require.NoError(t, take(run("1"), 0, true), "its next look")
	require.Error(t, take(run("1"), 1, false))
	require.NoError(t, take(run("2"), 0, false), "another server")
	require.NoError(t, take(run("1"), 1, true))
	require.Error(t, take(run("1"), 0, false))
	g.GiveUp(1)
	require.NoError(t, take(run("1"), 0, false))
}

// The goal: a server stays a new one for its node until an extension that began before can't come
// any more, also on the node's second connection to it.
func TestServers_AreStillNewOnTheSecondConnection(t *testing.T) {
	g := groupOf("a", "b")
	a, _, _ := taken(t, g, run("1"), 0)
	began := time.Now()
	g.Closed(a)
	for range 2 {
		b := &connection{}
		since, _, err := g.Take(run("1"), 1, b)
		require.NoError(t, err)
		require.False(t, began.After(since), "node a's vote on it was this server's")
		g.Closed(b)
	}
}
