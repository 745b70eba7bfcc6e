package memorynode

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// oneSlot is a cluster whose server does the same with all slots.
type oneSlot struct{ route Route }

func (oneSlot) Nodes() string         { return "all\n" }
func (c *oneSlot) Route(string) Route { return c.route }

// The goal: a server of a cluster refuses keys that it does not have, as servers do.
func TestCluster_KeysThatAreElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, c := New(0, 1), &oneSlot{}
		n.Cluster = c
		s := n.Accept(func([]byte) {}, func() {})
		do := func(words ...string) string { return string(s.Execute(words)) }
		moved, ask := Route{Refusal: "MOVED 1 b:1"}, Route{Ask: "ASK 1 b:1"}
		require.Equal(t, "+OK\r\n", do("SET", "{1}a", "x", "PX", "5000"))
		for _, command := range [][]string{
			{"SET", "{1}b", "x", "NX"},
			{"MGET", "{1}b"},
			{"MSET", "{1}b", "x"},
			{"MSETEX", "1", "{1}b", "x", "NX", "PX", "9"},
			{"EVALSHA", "x", "1", "{1}b", "y"},
		} {
			n.Newer = true
			c.route = moved
			require.Equal(t, "-MOVED 1 b:1\r\n", do(command...), command)
			c.route = ask
			require.Equal(t, "-ASK 1 b:1\r\n", do(command...), command)
		}
		require.Equal(t, "$1\r\nx\r\n", do("GET", "{1}a"))
		require.Contains(t, do("DEL", "{1}a", "{1}b"), "-TRYAGAIN ")
		require.Contains(t, do("DEL", "{1}a", "{2}b"), "-CROSSSLOT ")
		require.Equal(t, "+PONG\r\n", do("PING"))
		require.Equal(t, "$4\r\nall\n\r\n", do("CLUSTER", "NODES"))
	})
}

// The goal: a key that moves keeps its value and the time that it has left.
func TestCluster_AKeyMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := New(0, 1)
		time.Sleep(time.Hour)
		to := New(1, 1)
		s := from.Accept(func([]byte) {}, func() {})
		s.Execute([]string{"SET", "{1}a", "x", "PX", "5000"})
		s.Execute([]string{"SET", "{2}a", "y"})
		require.Equal(t, []string{"{1}a"}, from.KeysOfTag("1"))
		from.MoveKey("{1}a", to)
		require.Empty(t, from.KeysOfTag("1"))
		value, until := to.KeyUntil("{1}a")
		require.Equal(t, "x", value)
		require.Equal(t, 5*time.Second, time.Until(until))
	})
}

// The goal: a client of a server that becomes a replica is told of the tracked keys that differ.
func TestCluster_AFollowerTellsWhatDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, heard := New(0, 1), ""
		s := n.Accept(func(data []byte) { heard += string(data) }, func() {})
		for _, words := range [][]string{
			{"HELLO", "3"},
			{"CLIENT", "TRACKING", "ON", "OPTIN"},
			{"SET", "a", "1"},
			{"SET", "b", "1"},
			{"CLIENT", "CACHING", "YES"},
			{"MGET", "a", "b"},
		} {
			s.Execute(words)
		}
		master := New(1, 1)
		master.Set("a", "1")
		master.Set("b", "2")
		n.Follow(master.KeysFor(n))
		require.Equal(t, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nb\r\n", heard)
		require.True(t, n.IsReplica())
	})
}
