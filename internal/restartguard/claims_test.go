package restartguard

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

// claimsOf returns the claims of as many nodes as names.
func claimsOf(names ...string) *claims { return newClaims(names, new(Servers)) }

// claimed claims a server for a node, and wants that to succeed.
func claimed(t *testing.T, c *claims, runID string, node int) (conn net.Conn, moved bool,
	previousID string,
) {
	t.Helper()
	conn = &connection{}
	since, previousID, err := c.take(runID, node, conn)
	require.NoError(t, err)
	return conn, !since.IsZero(), previousID
}

// The goal: a server is one node's at a time. A node knows whether its server may have been
// another's, and the number of this client's last connection there, whichever node had it.
func TestClaims_AServerHasOneNode(t *testing.T) {
	c := claimsOf("a", "b")
	a, moved, previousID := claimed(t, c, run("1"), 0)
	require.True(t, moved, "the first server of a node")
	require.Empty(t, previousID)
	c.admitted(a, "7")
	_, _, err := c.take(run("1"), 1, &connection{})
	require.EqualError(t, err, "is the same server as a, and one server has one vote: give each "+
		"node a server of its own")
	b, _, _ := claimed(t, c, run("2"), 1)

	c.closed(a)
	a, moved, previousID = claimed(t, c, run("1"), 0)
	require.True(t, moved, "still since then")
	require.Equal(t, "7", previousID)
	c.closed(a)
	c.closed(b)
	b, moved, previousID = claimed(t, c, run("1"), 1)
	require.True(t, moved)
	require.Equal(t, "7", previousID, "also where it was not admitted since")
	c.closed(b)
	_, moved, _ = claimed(t, c, run("1"), 0)
	require.True(t, moved, "node b had it in between")
}

// The goal: the connection that a claim was replaced by does not end with the old one.
func TestClaims_TheNewerConnectionCounts(t *testing.T) {
	c := claimsOf("a", "b")
	old, _, _ := claimed(t, c, run("1"), 0)
	_, _, _ = claimed(t, c, run("1"), 0)
	c.closed(old)
	_, _, err := c.take(run("1"), 1, &connection{})
	require.Error(t, err)
}

// The goal: a server without a run_id may be any other, and what is not unique is no run_id.
func TestClaims_AServerWithoutARunIDMayBeAnyOther(t *testing.T) {
	for _, none := range []string{
		"", "x", strings.Repeat("0", 40), strings.Repeat("a", 40),
		run("1") + "0", run("G"),
	} {
		c := claimsOf("a", "b", "c")
		a, _, _ := claimed(t, c, run("1"), 0)
		b, _, _ := claimed(t, c, none, 1)
		third, _, _ := claimed(t, c, run("3"), 2)
		require.Empty(t, c.use(a))
		require.Equal(t, []int{0}, c.use(b))
		require.Equal(t, []int{1}, c.use(third), "the other is known to differ")
		c.closed(a)
		require.Empty(t, c.use(a), "closed meanwhile")
		c.closed(b)
		b, _, _ = claimed(t, c, none, 1)
		require.False(t, c.toldApart(b, time.Time{}).IsZero(), "it may be the one that node a had")
		c = claimsOf("a", "b")
		a, _, _ = claimed(t, c, run("1"), 0)
		b, _, _ = claimed(t, c, none, 1)
		require.Zero(t, c.toldApart(b, time.Time{}), "no other has lost any")
		c.use(a)
		c.closed(a)
		require.False(t, c.toldApart(b, time.Time{}).IsZero(), "another was lost before they were told apart")
	}
}

// The goal: a quarantined server stays its node's between two looks, until that finds another
// server or none.
func TestClaims_LastDuringAQuarantine(t *testing.T) {
	c := claimsOf("a", "b")
	claim := func(runID string, node int, waits bool) error {
		conn := &connection{}
		_, _, err := c.take(runID, node, conn)
		if waits {
			c.outlasts(conn)
		}
		c.closed(conn)
		return err
	}
	require.NoError(t, claim(run("1"), 0, true))
	require.Error(t, claim(run("1"), 1, false))
	require.NoError(t, claim(run("1"), 0, true), "its next look")
	require.Error(t, claim(run("1"), 1, false))
	require.NoError(t, claim(run("2"), 0, false), "another server")
	require.NoError(t, claim(run("1"), 1, true))
	require.Error(t, claim(run("1"), 0, false))
	c.giveUp(1)
	require.NoError(t, claim(run("1"), 0, false))
}

// The goal: a server stays a new one for its node until an extension that began before can't come
// any more, also on the node's second connection to it.
func TestClaims_AreStillNewOnTheSecondConnection(t *testing.T) {
	c := claimsOf("a", "b")
	a, _, _ := claimed(t, c, run("1"), 0)
	began := time.Now()
	c.closed(a)
	for range 2 {
		b := &connection{}
		since, _, err := c.take(run("1"), 1, b)
		require.NoError(t, err)
		require.False(t, began.After(since), "node a's vote on it was this server's")
		c.closed(b)
	}
}
