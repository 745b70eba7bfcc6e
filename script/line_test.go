package script_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// inLine is what script.Line says.
type inLine struct{ ticket, before, ahead, pttl int64 }

// asks requests a place in the line for "k", of three at most.
func asks(t *testing.T, n *lockpipetest.Nodes, name string, ticket int64, lasts string) inLine {
	t.Helper()
	reply := do(t, n, "EVAL", script.Line.Source, "2", "line", "k", name,
		strconv.FormatInt(ticket, 10), lasts, "3", "60000").([]any)
	require.Len(t, reply, 4)
	return inLine{reply[0].(int64), reply[1].(int64), reply[2].(int64), reply[3].(int64)}
}

// leaves has a client leave that line, and returns how many are left in it.
func leaves(t *testing.T, n *lockpipetest.Nodes, name string, ticket int64, grace string) int64 {
	t.Helper()
	text := strconv.FormatInt(ticket, 10)
	return do(t, n, "EVAL", script.Leave.Source, "2", "line", "turn:"+text, name, text, "1000",
		grace).(int64)
}

func hasLeft(t *testing.T, n *lockpipetest.Nodes, ticket int64) bool {
	t.Helper()
	return do(t, n, "EXISTS", "turn:"+strconv.FormatInt(ticket, 10)) == int64(1)
}

// The goal: places are in the order of arrival, a client that asks again keeps its own, and each
// learns whose ticket is before it.
func TestLine_KeepsTheOrderOfArrival(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		do(t, n, "SET", "k", "x", "PX", "60000")
		a := asks(t, n, "a", 0, "60000")
		require.Equal(t, inLine{a.ticket, 0, 0, a.pttl}, a)
		require.InDelta(t, 60000, a.pttl, 30000)
		do(t, n, "DEL", "k")
		b := asks(t, n, "b", 0, "60000")
		require.Equal(t, inLine{b.ticket, a.ticket, 1, -2}, b)
		c := asks(t, n, "c", 0, "60000")
		require.Equal(t, inLine{c.ticket, b.ticket, 2, -2}, c)
		require.Greater(t, b.ticket, a.ticket)
		require.Greater(t, c.ticket, b.ticket)
		require.Equal(t, inLine{0, 0, 0, -2}, asks(t, n, "d", 0, "60000"), "the line is full")
		require.Equal(t, b, asks(t, n, "b", b.ticket, "60000"))
		require.Equal(t, a.ticket, asks(t, n, "a", a.ticket, "60000").ticket)
	})
}

// The goal: who leaves is out, and tells the client behind it, if there is one. A ticket is never
// given again, so an old message fits no new client.
func TestLeave_TellsTheNextOne(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		a, b := asks(t, n, "a", 0, "60000"), asks(t, n, "b", 0, "60000")
		require.Equal(t, int64(2), leaves(t, n, "another", b.ticket, "60000"))
		require.Equal(t, int64(1), leaves(t, n, "a", a.ticket, "60000"))
		require.True(t, hasLeft(t, n, a.ticket))
		require.Equal(t, inLine{b.ticket, 0, 0, -2}, asks(t, n, "b", b.ticket, "60000"))
		require.Zero(t, leaves(t, n, "b", b.ticket, "60000"))
		require.False(t, hasLeft(t, n, b.ticket), "nobody is behind it")
		require.Greater(t, asks(t, n, "a", a.ticket, "60000").ticket, b.ticket, "it has lost its place")
	})
}

// The goal: a client whose turn it is, and that does not come, holds nobody up: its place ends
// soon. The places of those behind it last.
func TestLeave_TheNextOneIsSoonDropped(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		a, b := asks(t, n, "a", 0, "60000"), asks(t, n, "b", 0, "60000")
		c := asks(t, n, "c", 0, "60000")
		leaves(t, n, "a", a.ticket, "0")
		require.Equal(t, inLine{c.ticket, 0, 0, -2}, asks(t, n, "c", c.ticket, "60000"))
		require.Greater(t, asks(t, n, "b", b.ticket, "60000").ticket, c.ticket)
	})
}

// The goal: who gives up in the middle shortens nobody's place: it is not the next one's turn.
func TestLeave_InTheMiddleIsNobodysTurn(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		a, b := asks(t, n, "a", 0, "60000"), asks(t, n, "b", 0, "60000")
		c := asks(t, n, "c", 0, "60000")
		leaves(t, n, "b", b.ticket, "0")
		require.True(t, hasLeft(t, n, b.ticket))
		d := asks(t, n, "d", 0, "60000")
		require.Equal(t, inLine{d.ticket, c.ticket, 2, -2}, d)
		require.Equal(t, inLine{c.ticket, a.ticket, 1, -2}, asks(t, n, "c", c.ticket, "60000"))
	})
}

// The goal: a line ends with the last of its places, and a ticket of the next line is a new one.
func TestLine_Ends(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		a := asks(t, n, "a", 0, "60000")
		require.InDelta(t, 60000, do(t, n, "PTTL", "line"), 30000)
		b := asks(t, n, "b", 0, "1")
		require.Eventually(t, func() bool { return do(t, n, "EXISTS", "line") == int64(0) },
			20*time.Second, time.Millisecond, "the last one to ask says how long it lasts")
		require.Greater(t, b.ticket, a.ticket)
		require.Greater(t, asks(t, n, "b", b.ticket, "60000").ticket, b.ticket)
	})
}

// The goal: if a key is free, and the first client does not take it, that one holds nobody up. Nor
// do others that died behind it.
func TestLine_TheFirstOfAFreeKeyIsSoonDropped(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		ask := func(name, ticket, grace string) []any {
			return do(t, n, "EVAL", script.Line.Source, "2", "line", "k", name, ticket, "60000",
				"9", grace).([]any)
		}
		do(t, n, "SET", "k", "x")
		for _, name := range []string{"dead", "dead too", "another"} {
			ask(name, "0", "0")
		}
		last := ask("last", "0", "0")
		ticket := strconv.FormatInt(last[0].(int64), 10)
		require.Equal(t, int64(3), ask("last", ticket, "0")[2], "the key is held")
		do(t, n, "DEL", "k")
		require.Equal(t, int64(3), ask("last", ticket, "0")[2])
		require.Equal(t, int64(2), ask("last", ticket, "0")[2])
		require.Equal(t, []any{last[0], int64(0), int64(0), int64(-2)}, ask("last", ticket, "0"))
	})
}

// The goal: a key of another type is no reason to fail, because it is held.
func TestLine_AKeyOfAnotherTypeIsHeld(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		do(t, n, "ZADD", "k", "1", "x")
		require.Equal(t, int64(-1), asks(t, n, "a", 0, "60000").pttl)
	})
}

// The goal: a client that died holds up nobody for long, although the server's clock went back
// meanwhile: no place can end later than one that is new.
func TestLine_TheClockGoesBack(t *testing.T) {
	onBoth(t, func(t *testing.T, n *lockpipetest.Nodes) {
		asks(t, n, "a", 0, "3600000")
		b := asks(t, n, "b", 0, "3000")
		require.Zero(t, b.before)
	})
}
