package memorynode_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptools"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// ask sends a command to a node and returns what it answers.
func ask(t *testing.T, n *memorynode.Node, args ...string) string {
	t.Helper()
	reply := ""
	s := n.Accept(func(b []byte) { reply += string(b) }, func() {})
	defer s.Close()
	receive(t, s, command(args...), time.Now())
	return reply
}

func command(args ...string) []byte { return resp.AppendCommand(nil, args...) }

func receive(t *testing.T, s *memorynode.Session, data []byte, at time.Time) {
	t.Helper()
	require.NoError(t, s.Receive(data, at))
}

// value returns a reply of a node in the types of lockpipetest.Nodes.Do.
func value(t *testing.T, reply string) any {
	t.Helper()
	s := resp.NewScanner(resp.Limits{Line: 4 << 10, Bytes: 16 << 20, Items: 1 << 16})
	n, err := s.Next([]byte(reply))
	require.NoError(t, err)
	require.Equal(t, len(reply), n)
	r := s.Reply([]byte(reply), n)
	return resptools.Any(r.Value())
}

// The goal: the scripts in Go do what the Lua does on servers, with any keys, tokens and TTLs, and
// leave the same keys.
func TestScripts_ModelsDoWhatTheLuaDoes(t *testing.T) {
	t.Run("redis-server", func(t *testing.T) { compareModels(t, servertest.Start(t, 1), 600) })
	t.Run("in-process", func(t *testing.T) {
		n, err := lockpipetest.StartInProcess(1)
		require.NoError(t, err)
		t.Cleanup(func() { _ = n.Close() })
		compareModels(t, n, 100) // its scripts are the models themselves
	})
}

// withKept gives a set what s needs, if s is a script about keys that are kept.
func withKept(set *script.Set, s *script.Script, rng *rand.Rand) {
	switch s {
	case script.Keep: // of tokens without a mark, t is the token
		set.TTL = []string{set.TTL, "1", ""}[rng.IntN(3)]
	case script.Adopt:
		set.TTL = strconv.Itoa(100000 * (1 + rng.IntN(2)))
	}
	if s == script.Keep || s == script.Adopt {
		set.Kept = []string{
			[]string{"t ", "t ", "u "}[rng.IntN(3)],
			[]string{script.Marked, script.Unmarked, script.Free}[rng.IntN(3)],
		}
	}
}

// guardCall is a call of the restart guard's script.
func guardCall(rng *rand.Rand) []string {
	one := func(texts ...string) string { return texts[rng.IntN(len(texts))] }
	call := []string{
		"EVAL", script.Guard.Source, "1", "guard", one("", "a", "b", "lost:1"),
		one("a", "b", "lost:1"),
	}
	switch rng.IntN(3) {
	case 0:
		call = append(call, "", "")
	case 1:
		call = append(call, "KEEPTTL", "")
	default:
		call = append(call, "PX", "86400000")
	}
	return append(call, one("", "1", "90000000"))
}

func compareModels(t *testing.T, server *lockpipetest.Nodes, rounds int) {
	rng := rand.New(rand.NewPCG(1, 2))
	n := memorynode.New(0, 1)
	for range rounds {
		if rng.IntN(5) == 0 {
			args := guardCall(rng)
			want, err := server.Do(0, args...)
			require.NoError(t, err)
			require.Equal(t, want, value(t, ask(t, n, args...)), args[3:])
			kept, err := server.Do(0, "GET", "guard")
			require.NoError(t, err)
			require.Equal(t, kept, value(t, ask(t, n, "GET", "guard")), args[3:])
		}
		empty, err := server.Do(0, "EVAL", script.Probe.Source, "1", "none")
		require.NoError(t, err)
		require.Equal(t, empty, value(t, ask(t, n, "EVAL", script.Probe.Source, "1", "none")))
		compareFences(t, server, n, rng)
		s := script.All()[rng.IntN(5)] // the others have no sets
		var plan script.Plan
		plan.Reset(s, false)
		perm := rng.Perm(12)
		for i := 0; len(perm) > 0 && i < 5; i++ {
			size := min(len(perm), 1+rng.IntN(3)*rng.IntN(2))
			set := script.Set{
				Token: fmt.Sprint("t", rng.IntN(3)),
				TTL:   strconv.Itoa(100000 * (1 + rng.IntN(2))),
			}
			for _, k := range perm[:size] {
				set.Keys = append(set.Keys, fmt.Sprint("k", k))
			}
			perm = perm[size:]
			withKept(&set, s, rng)
			plan.Add(i, set)
		}
		for _, c := range plan.Calls() {
			args := append([]string{"EVAL", s.Source, strconv.Itoa(len(c.Keys))}, c.Keys...)
			args = append(args, c.Args...)
			want, err := server.Do(0, args...)
			require.NoError(t, err)
			require.Equal(t, want, value(t, ask(t, n, args...)), "%s %v %v", s.Name, c.Keys, c.Args)
		}
	}
	compareLayouts(t, server, n, rng)
	compareLines(t, server, n, rng, rounds)
	compareNewerCommands(t, server, n, rng, rounds)
	var all []string
	for k := range 12 {
		all = append(all, fmt.Sprint("k", k))
	}
	for _, key := range all {
		want, err := server.Do(0, "GET", key)
		require.NoError(t, err)
		require.Equal(t, want, value(t, ask(t, n, "GET", key)))
		left, err := server.Do(0, "PTTL", key)
		require.NoError(t, err)
		require.InDelta(t, max(0, left.(int64)), n.TTL(key).Milliseconds(), 60000,
			"%s was given its TTL at another time", key)
	}
}

// compareFences raises numbers on both, as leases with a fence do, and reads them by the script.
func compareFences(t *testing.T, server *lockpipetest.Nodes, n *memorynode.Node, rng *rand.Rand) {
	t.Helper()
	raise := []string{"ZADD", "fences", "GT", "CH"}
	look := []string{"EVAL", script.Fences.Source, "1", "fences"}
	for range 1 + rng.IntN(3) {
		member := strconv.Itoa(rng.IntN(9))
		raise = append(raise, strconv.FormatInt(1000000000000000+rng.Int64N(50), 10), member)
		look = append(look, member)
	}
	for _, args := range [][]string{raise, look} {
		want, err := server.Do(0, args...)
		require.NoError(t, err)
		require.Equal(t, want, value(t, ask(t, n, args...)), args)
	}
}

// compareLayouts gives both the script of the layouts. Their clocks differ, so the ends are not
// compared, and these are far apart.
func compareLayouts(t *testing.T, server *lockpipetest.Nodes, n *memorynode.Node, rng *rand.Rand) {
	t.Helper()
	times := regexp.MustCompile(`\b\d{13,17}\b`)
	both := func(args ...string) string {
		want, err := server.Do(0, args...)
		require.NoError(t, err)
		got := value(t, ask(t, n, args...))
		if pairs, isHash := want.([]any); args[0] == "HGETALL" && isHash {
			want, got = sortedPairs(pairs), sortedPairs(got.([]any))
		}
		text := times.ReplaceAllString(fmt.Sprint(want), "END")
		require.Equal(t, text, times.ReplaceAllString(fmt.Sprint(got), "END"), args)
		return text
	}
	longest := 0
	for _, lasts := range rng.Perm(150) {
		lasts, runIDs := 1_000_000*int64(lasts), []string{"", "{}", `{"a b": "1"}`}[rng.IntN(3)]
		switch rng.IntN(60) {
		case 0:
			lasts = 1e16 // more digits than an end may have
		case 1:
			lasts = -1e9 // ended
		case 2:
			runIDs = strings.Repeat("x", 96_000) // which others drop
		}
		both("EVAL", script.Layouts.Source, "1", "layouts", fmt.Sprint("x", rng.IntN(100)),
			strconv.FormatInt(lasts, 10), fmt.Sprint("o", lasts), runIDs)
		longest = max(longest, strings.Count(both("HGETALL", "layouts"), "END"))
	}
	require.GreaterOrEqual(t, longest, 63)
}

// compareLines has clients ask for places and leave. The clocks of both differ, so a ticket is
// compared by whose it is. A place ends at once or never.
func compareLines(t *testing.T, server *lockpipetest.Nodes, n *memorynode.Node, rng *rand.Rand,
	rounds int,
) {
	t.Helper()
	const names = "abcdef"
	var tickets [2]map[string]int64
	var owners [2]map[int64]string
	for i := range tickets {
		tickets[i], owners[i] = map[string]int64{}, map[int64]string{0: ""}
	}
	for range rounds {
		name := string(names[rng.IntN(len(names))])
		leaves, grace := rng.IntN(3) == 0, []string{"-1000", "1000000"}[rng.IntN(2)]
		var replies [2]string
		for i := range replies {
			ticket := fmt.Sprint(tickets[i][name])
			args := []string{
				"EVAL", script.Line.Source, "2", "line", "k", name, ticket, "1000000", "5", grace,
			}
			if leaves {
				args = []string{
					"EVAL", script.Leave.Source, "2", "line", "turn", name, ticket, "1000000",
					grace,
				}
			}
			var reply any
			if i == 0 {
				var err error
				reply, err = server.Do(0, args...)
				require.NoError(t, err)
			} else {
				reply = value(t, ask(t, n, args...))
			}
			if numbers, isList := reply.([]any); isList {
				own := numbers[0].(int64)
				tickets[i][name], owners[i][own] = own, name
				reply = fmt.Sprint(owners[i][own], owners[i][numbers[1].(int64)], numbers[2])
				if own == 0 {
					owners[i][0] = ""
				}
			}
			replies[i] = fmt.Sprint(reply)
		}
		require.Equal(t, replies[0], replies[1], "%s leaves: %v", name, leaves)
		told, err := server.Do(0, "DEL", "turn")
		require.NoError(t, err)
		require.Equal(t, told, value(t, ask(t, n, "DEL", "turn")))
	}
}

// The goal: a line that begins at the time at which an earlier line began has other tickets.
// Otherwise the key that says that the earlier ticket has left would end a wait for the new ticket.
func TestLine_NoTicketComesTwiceWhileTheClockStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, before := memorynode.New(0, 1), int64(0)
		for range 3 {
			place := value(t, ask(t, n, "EVAL", script.Line.Source, "2", "line", "k", "a", "0",
				"3000", "5", "500")).([]any)
			ticket := place[0].(int64)
			require.Greater(t, ticket, before)
			before = ticket
			require.Equal(t, int64(0), value(t, ask(t, n, "EVAL", script.Leave.Source, "2", "line",
				"turn", "a", fmt.Sprint(ticket), "1000", "500")))
		}
	})
}

// sortedPairs returns fields with their values, in the order of the fields.
func sortedPairs(pairs []any) (all []string) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, fmt.Sprint(pairs[i], "=", pairs[i+1]))
	}
	slices.Sort(all)
	return all
}

// compareNewerCommands gives MSETEX and DELIFEQ to both, if the server has them.
func compareNewerCommands(t *testing.T, server *lockpipetest.Nodes, n *memorynode.Node,
	rng *rand.Rand, rounds int,
) {
	t.Helper()
	if _, err := server.Do(0, "DELIFEQ", "none", "x"); err != nil {
		return
	}
	n.Newer = true
	for range 2 * rounds {
		key := func() string { return fmt.Sprint("k", rng.IntN(12)) }
		token := fmt.Sprint("t", rng.IntN(3))
		args := []string{"DELIFEQ", key(), token}
		if rng.IntN(2) == 0 {
			count := 1 + rng.IntN(3)
			args = []string{"MSETEX", strconv.Itoa(count)}
			for i := range count { // the same key with several values, too
				args = append(args, key(), fmt.Sprint(token, i))
			}
			args = append(args, []string{"NX", "XX"}[rng.IntN(2)], "PX", "100000")
		}
		want, err := server.Do(0, args...)
		require.NoError(t, err)
		require.Equal(t, want, value(t, ask(t, n, args...)), args)
	}
}

// The goal: a node answers the commands of a handshake as a server does, so that a restart shows in
// them.
func TestNode_HandshakeShowsARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memorynode.New(3, 1)
		require.Equal(t, "+OK\r\n", ask(t, n, "AUTH", "user", "password"))
		require.Equal(t, ":2\r\n", ask(t, n, "CLIENT", "ID"))
		require.Contains(t, ask(t, n, "CONFIG", "GET", "*appendfsync*"),
			"$11\r\nappendfsync\r\n$8\r\neverysec\r\n")
		require.Equal(t, "$40\r\n"+script.Extend.SHA+"\r\n", ask(t, n, "SCRIPT", "LOAD",
			script.Extend.Source))
		require.Equal(t, "+OK\r\n", ask(t, n, "SET", "marker", "x"))
		before := ask(t, n, "INFO", "server")
		time.Sleep(90 * time.Second)
		require.Contains(t, ask(t, n, "INFO", "server"), "uptime_in_seconds:90\r\n")
		gone := 0
		n.Accept(func([]byte) {}, func() { gone++ })
		n.Restart()
		after := ask(t, n, "INFO", "persistence")
		require.Equal(t, 1, gone, "connections end")
		require.Contains(t, after, "uptime_in_seconds:0\r\n")
		require.Contains(t, after, "aof_enabled:0\r\n")
		require.NotEqual(t, before[:len(before)/2], after[:len(after)/2],
			"the run_id differs")
		require.Equal(t, "$-1\r\n", ask(t, n, "GET", "marker"))
		require.Contains(t, ask(t, n, "EVALSHA", script.Extend.SHA, "1", "k", "1000", "t"),
			"-NOSCRIPT")
	})
}

// The goal: a node comes back with its snapshot, or with all its keys if it is durable, and always
// as another server. FLUSHALL leaves nothing.
func TestNode_DataLossKeepsWhatTheDiskHas(t *testing.T) {
	const null = "$-1\r\n"
	for _, c := range []struct {
		name    string
		durable bool
		lose    func(*memorynode.Node)
		a, b    string
	}{
		{"restart", false, (*memorynode.Node).Restart, "$1\r\nx\r\n", null},
		{"durable restart", true, (*memorynode.Node).Restart, "$1\r\nx\r\n", "$1\r\ny\r\n"},
		{
			"failover", true, func(n *memorynode.Node) { n.Failover(time.Minute) },
			"$1\r\nx\r\n", null,
		},
		{"FLUSHALL", true, func(n *memorynode.Node) { n.Wipe(); n.Restart() }, null, null},
	} {
		n := memorynode.New(0, 1)
		n.Durable = c.durable
		before := n.RunID()
		ask(t, n, "SET", "a", "x")
		n.TakeSnapshot()
		ask(t, n, "SET", "b", "y")
		c.lose(n)
		require.Equal(t, c.a+c.b, ask(t, n, "GET", "a")+ask(t, n, "GET", "b"), c.name)
		require.NotEqual(t, before, n.RunID(), c.name)
		require.Equal(t, c.name == "failover",
			strings.Contains(ask(t, n, "INFO"), "replid2:1111"), c.name)
	}
}

// The goal: a restored disk has the keys of the time of the copy. The server has another run_id.
func TestNode_RestoreBringsACopyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memorynode.New(0, 1)
		ask(t, n, "SET", "a", "old")
		n.MakeCopy()
		time.Sleep(time.Second)
		ask(t, n, "SET", "a", "new")
		n.MakeCopy()
		before := n.RunID()
		require.Empty(t, n.CopiesBefore(time.Now().Add(-2*time.Second)))
		copies := n.CopiesBefore(time.Now().Add(-1))
		require.Len(t, copies, 1)
		n.Restore(copies[0])
		require.Equal(t, "$3\r\nold\r\n", ask(t, n, "GET", "a"))
		require.NotEqual(t, before, n.RunID())
	})
}

// The goal: a replica has the keys of its master for the same time, and refuses writes. As a master
// again it has the same run_id, and shows that it was a replica.
func TestNode_DemotionMakesAReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, master := memorynode.New(0, 1), memorynode.New(1, 1)
		master.AdvanceClock(time.Minute)
		ask(t, n, "SET", "mine", "x")
		ask(t, master, "SET", "a", "x", "PX", "1000")
		runID := n.RunID()
		n.Demote(master.KeysFor(n))
		require.Contains(t, ask(t, n, "INFO"), "role:slave\r\n")
		require.Equal(t, "$-1\r\n", ask(t, n, "GET", "mine"))
		require.Equal(t, ":1000\r\n", ask(t, n, "PTTL", "a"))
		require.Equal(t, "-"+memorynode.ReadOnly+"\r\n", ask(t, n, "SET", "b", "x"))
		ask(t, n, "SCRIPT", "LOAD", script.Release.Source)
		release := []string{"EVALSHA", script.Release.SHA, "1", "a", "1"}
		require.Equal(t, "*3\r\n:0\r\n:1\r\n:0\r\n", ask(t, n, append(release, "y")...))
		require.Equal(t, "-"+memorynode.ReadOnly+"\r\n", ask(t, n, append(release, "x")...))
		n.Promote()
		require.Contains(t, ask(t, n, "INFO"), "role:master\r\n")
		require.Contains(t, ask(t, n, "INFO"), "master_replid2:1111")
		require.Equal(t, ":1\r\n", ask(t, n, append(release, "x")...))
		require.Equal(t, runID, n.RunID())
	})
}

// The goal: a master that a user demotes keeps its connections, and tells of the flush. It forgets
// that it was a replica, and then has another master_replid.
func TestNode_ForgetsThatItWasAReplica(t *testing.T) {
	n := memorynode.New(0, 1)
	var pushes []string
	s := n.Accept(func(data []byte) { pushes = append(pushes, string(data)) }, func() {})
	s.Execute([]string{"HELLO", "3"})
	s.Execute([]string{"CLIENT", "TRACKING", "ON", "OPTIN"})
	n.ForgetReplica()
	first := string(s.Execute([]string{"INFO"}))
	n.Sync(memorynode.Keys{})
	require.Equal(t, []string{memorynode.Flushed}, pushes)
	n.ForgetReplica()
	require.Contains(t, string(s.Execute([]string{"INFO"})), "role:slave\r\n")
	n.Promote()
	promoted := string(s.Execute([]string{"INFO"}))
	require.Contains(t, promoted, "master_replid2:1111")
	n.ForgetReplica()
	forgotten := string(s.Execute([]string{"INFO"}))
	require.Contains(t, forgotten, "master_replid2:0000")
	id := func(info string) string {
		_, rest, _ := strings.Cut(info, "master_replid:")
		return rest[:40]
	}
	require.NotEqual(t, id(first), id(promoted))
	require.NotEqual(t, id(promoted), id(forgotten))
	require.NotEqual(t, id(first), id(forgotten))
}

// The goal: who tracks a key hears that all keys were deleted, and nobody else does.
func TestNode_DeletesAllKeys(t *testing.T) {
	n := memorynode.New(0, 1)
	var pushes []string
	s := n.Accept(func(data []byte) { pushes = append(pushes, string(data)) }, func() {})
	for _, command := range []string{
		"HELLO 3", "CLIENT TRACKING ON OPTIN", "SET a x", "SET b x", "CLIENT CACHING YES", "GET a",
	} {
		s.Execute(strings.Fields(command))
	}
	n.DeleteAll()
	require.Empty(t, n.LiveKeys())
	require.Equal(t, []string{">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n"}, pushes)
}

// The goal: a node without tracking refuses it, and knows the rest of CLIENT.
func TestNode_WithoutTracking(t *testing.T) {
	n := memorynode.New(0, 1)
	n.NoTracking = true
	require.Contains(t, ask(t, n, "CLIENT", "TRACKING", "ON", "OPTIN"), "-ERR unknown subcommand")
	require.Contains(t, ask(t, n, "CLIENT", "CACHING", "YES"), "-ERR unknown subcommand")
	require.Equal(t, "+OK\r\n", ask(t, n, "CLIENT", "SETNAME", "x"))
}

// The goal: when a node's clock moves forward, its keys end sooner and its server is older.
func TestNode_ClockMovesForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memorynode.New(0, 1)
		ask(t, n, "SET", "a", "x", "PX", "5000")
		n.AdvanceClock(3 * time.Second)
		require.Equal(t, ":2000\r\n", ask(t, n, "PTTL", "a"))
		value, until := n.KeyUntil("a")
		require.Equal(t, "x", value)
		require.Equal(t, time.Now().Add(2*time.Second), until)
		require.Contains(t, ask(t, n, "INFO"), "uptime_in_seconds:3\r\n")
	})
}

// The goal: a client that tracks a key is notified once of its next change, and of FLUSHALL. A
// client that does not track it is not notified.
func TestNode_NotifiesTrackersOnce(t *testing.T) {
	n := memorynode.New(0, 1)
	pushed := ""
	s := n.Accept(func(b []byte) { pushed += string(b) }, func() {})
	receive(t, s, command("HELLO", "3"), time.Now())
	receive(t, s, command("CLIENT", "TRACKING", "ON", "OPTIN"), time.Now())
	receive(t, s, append(command("CLIENT", "CACHING", "YES"), command("PTTL", "a")...), time.Now())
	receive(t, s, command("PTTL", "b"), time.Now())
	pushed = ""
	for range 2 {
		ask(t, n, "SET", "a", "x")
		ask(t, n, "SET", "b", "x")
	}
	require.Equal(t, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n", pushed)
	pushed = ""
	n.Wipe()
	require.Equal(t, ">2\r\n$10\r\ninvalidate\r\n_\r\n", pushed)
}

// The goal: a key lives for its TTL by the node's own clock, and up to a millisecond less.
func TestNode_KeyLivesByTheNodesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, rate := range []float64{0.99, 1, 1.01} {
			n := memorynode.New(0, rate)
			time.Sleep(333333 * time.Nanosecond)
			ask(t, n, "SET", "k", "token", "NX", "PX", "10000")
			began := time.Now()
			_, until := n.KeyUntil("k")
			life := until.Sub(began).Seconds() * rate
			require.LessOrEqual(t, life, 10.0)
			require.Greater(t, life, 9.999)
			time.Sleep(time.Until(until) - 2*time.Microsecond)
			require.Equal(t, "$5\r\ntoken\r\n", ask(t, n, "GET", "k"))
			time.Sleep(4 * time.Microsecond)
			require.Equal(t, "$-1\r\n", ask(t, n, "GET", "k"))
			_, until = n.KeyUntil("k")
			require.Zero(t, until)
		}
	})
}
