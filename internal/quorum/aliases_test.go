package quorum

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func run(digit string) string { return strings.Repeat(digit, 39) + "0" }

// The goal: nodes are names of one server as long as neither has got another one, or one that does
// not show its run_id.
func TestAliases_AreKnownByTheRunID(t *testing.T) {
	var a Aliases
	require.Nil(t, a.Names())
	require.Zero(t, a.Names().Others(3))
	a.Set(0, run("1"), false)
	a.Set(1, run("2"), false)
	require.Nil(t, a.Names())
	a.Set(2, run("1"), false)
	require.Equal(t, Node(2), a.Names().Others(0))
	require.Equal(t, Node(0), a.Names().Others(2))
	require.Zero(t, a.Names().Others(1))
	a.Set(63, run("1"), false)
	require.Equal(t, Node(0)|Node(2), a.Names().Others(63))
	a.Set(2, "", false)
	a.Set(63, run("3"), false)
	require.Nil(t, a.Names())
}

// The goal: what is no run_id of Redis may be shown by several servers, and says nothing.
func TestAliases_OnlyARunIDCounts(t *testing.T) {
	for _, shown := range []string{
		"", "1", strings.Repeat("0", 40), strings.Repeat("f", 40), strings.Repeat("x1", 20),
		strings.ToUpper(run("a")), run("1") + "0",
	} {
		var a Aliases
		a.Set(0, shown, false)
		a.Set(1, shown, false)
		require.Nil(t, a.Names(), "%q", shown)
	}
}

// The goal: a name has confirmed a release when all names of its server have.
func TestNames_ConfirmTogether(t *testing.T) {
	var a Aliases
	a.Set(0, run("1"), false)
	a.Set(1, run("1"), false)
	const all = 0b111
	for _, c := range []struct{ free, unanswerable, nodes, unknown Nodes }{
		{free: 0b100},
		{free: 0b111},
		{free: 0b011},
		{free: 0b110, nodes: 0b010},
		{free: 0b110, unanswerable: 0b001, nodes: 0b010, unknown: 0b010},
		{free: 0b001, unanswerable: 0b100, nodes: 0b001},
	} {
		nodes, unknown := a.Names().Unconfirmed(all, c.free, c.unanswerable)
		require.Equal(t, []Nodes{c.nodes, c.unknown}, []Nodes{nodes, unknown}, "%+v",
			c)
	}
	nodes, _ := a.Names().Unconfirmed(0b110, 0b110, 0) // the claim does not need node 0
	require.Zero(t, nodes)
	nodes, _ = (*Names)(nil).Unconfirmed(all, 0b110, 0)
	require.Zero(t, nodes)
}
