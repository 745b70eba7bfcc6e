package fleet

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// servers are some servers, which keep what they have when they restart.
type servers []*memorynode.Node

func newServers(n int) (all servers) {
	for i := range n {
		s := memorynode.New(i, 1)
		s.Durable = true
		all = append(all, s)
	}
	return all
}

// client is one client of some of the servers. It renews an entry when it is to be renewed soon and
// the test lets it.
type client struct {
	servers []*memorynode.Node
	fleet   *Fleet
	nodes   []*Node
	conns   []*resp.Conn // nil while a node is not connected
	soon    []bool       // that a node is to be renewed
	log     bytes.Buffer
	wait    time.Duration
}

// client returns a client that is connected. Its layouts are of the numbers of the servers. names
// is what it puts before a number to have a node's name.
func (all servers) client(t *testing.T, owner, names string, maxTTL time.Duration,
	layouts ...[]int,
) *client {
	t.Helper()
	c := &client{wait: maxTTL}
	var texts [][]Group
	index := map[int]bool{}
	var numbers []int
	for _, l := range layouts {
		var g Group
		for _, i := range l {
			g.Nodes = append(g.Nodes, fmt.Sprint(names, i))
			if !index[i] {
				index[i], numbers = true, append(numbers, i)
			}
		}
		texts = append(texts, Sorted([]Group{g}))
	}
	c.fleet = New(Config{
		Layouts: texts, Owner: owner, MaxTTL: maxTTL,
		Logger: slog.New(slog.NewTextHandler(&c.log, nil)),
	})
	for at, i := range numbers {
		c.servers, c.conns = append(c.servers, all[i]), append(c.conns, nil)
		c.soon = append(c.soon, false)
		c.nodes = append(c.nodes, c.fleet.Node(NodeConfig{
			Name: fmt.Sprint(names, i), Key: "layouts", Wait: c.wait,
			RenewSoon: func() { c.soon[at] = true },
		}))
	}
	for at := range c.nodes {
		_, err := c.connect(t, at)
		require.NoError(t, err)
	}
	return c
}

// connect connects a node to its server.
func (c *client) connect(t *testing.T, at int) (time.Duration, error) {
	t.Helper()
	conn := resp.NewConn(c.servers[at].Dial())
	t.Cleanup(func() { _ = conn.Close() })
	load := resp.Step{Command: []string{"SCRIPT", "LOAD", script.Layouts.Source}}
	require.NoError(t, conn.Do(load))
	err := c.nodes[at].Admit(conn, c.servers[at].RunID())
	if err == nil {
		c.conns[at] = conn
	}
	return c.nodes[at].Heard().Wait, err
}

// renew renews the entry on a node.
func (c *client) renew(t *testing.T, at int) (time.Duration, error) {
	t.Helper()
	c.soon[at] = false
	err := c.nodes[at].Renew(func(key string, args []string) (texts []string, refusal, err error) {
		command := append([]string{"EVALSHA", script.Layouts.SHA, "1", key}, args...)
		v, err := c.conns[at].Ask(command...)
		if v.Kind == '-' {
			return nil, err, nil
		}
		return v.Texts(), nil, err
	})
	return c.nodes[at].Heard().Wait, err
}

// work renews what is to be renewed soon, or all.
func (c *client) work(t *testing.T, all bool) {
	t.Helper()
	for range 3 { // one renewal may ask for another
		for at := range c.nodes {
			if c.conns[at] != nil && (all || c.soon[at]) {
				_, err := c.renew(t, at)
				require.NoError(t, err)
			}
		}
	}
}

// lose ends the connection to a node.
func (c *client) lose(at int) {
	_ = c.conns[at].Close()
	c.conns[at] = nil
	c.nodes[at].Left()
}

// during lets clients live for a time.
func during(t *testing.T, d time.Duration, clients ...*client) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(renewEvery / 2) {
		for range 2 {
			for _, c := range clients {
				c.work(t, true)
			}
			time.Sleep(2 * sightingTime)
		}
	}
}

func (c *client) lines(text string) int { return strings.Count(c.log.String(), text) }

// The goal: clients whose servers are the same, by whatever names, are no foreign ones.
func TestFleet_TheSameServersUnderTwoNamesAreOneLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newServers(3)
		a := all.client(t, "a", "a", time.Minute, []int{0, 1, 2})
		b := all.client(t, "b", "b", time.Minute, []int{2, 0, 1})
		for range 3 {
			require.Zero(t, a.fleet.Foreign()+b.fleet.Foreign())
			during(t, time.Minute, a, b)
		}
		require.Empty(t, a.log.String()+b.log.String())
	})
}

// The goal: one ERROR when a foreign layout appears, with all nodes that show it, and one INFO when
// its clients have gone.
func TestFleet_LogsAForeignLayoutOnceWithBothClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newServers(5)
		a := all.client(t, "a-1", "s", time.Minute, []int{0, 1, 2})
		b := all.client(t, "b-1", "s", time.Minute, []int{1, 2, 3, 4})
		require.Equal(t, 1, b.fleet.Foreign(), "at once")
		require.Equal(t, sightingTime, b.nodes[0].UntilRenewal())
		require.Equal(t, []bool{true, true, true, true}, b.soon)
		require.Empty(t, b.log.String())
		during(t, 5*time.Minute, a, b)
		for _, c := range []*client{a, b} {
			require.Equal(t, 1, c.lines("level=ERROR"), c.log.String())
			require.Contains(t, c.log.String(), `nodes="[s1 s2]"`)
			require.Contains(t, c.log.String(), "Config.Next")
			require.GreaterOrEqual(t, c.nodes[0].UntilRenewal(), renewEvery/2)
		}
		require.Contains(t, a.log.String(), "own_owner=a-1")
		require.Contains(t, a.log.String(), "owner=b-1")
		require.Contains(t, a.log.String(), "layout=s1,s2,s3,s4")
		require.Contains(t, a.log.String(), "own_layout=s0,s1,s2")
		during(t, inUse+renewEvery, a)
		require.Zero(t, a.fleet.Foreign())
		require.Equal(t, 1, a.lines("level=INFO"), a.log.String())
	})
}

func TestFleet_AClientThatMovesIsForeignToNeitherLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newServers(4)
		before := all.client(t, "-", "s", time.Minute, []int{0, 1, 2})
		both := all.client(t, "-", "s", time.Minute, []int{0, 1, 2}, []int{1, 2, 3})
		during(t, time.Minute, before, both)
		require.Empty(t, before.log.String()+both.log.String())
		during(t, inUse, both)
		after := all.client(t, "-", "s", time.Minute, []int{1, 2, 3})
		during(t, time.Minute, both, after)
		require.Empty(t, both.log.String()+after.log.String())
		during(t, time.Minute, before, after)
		require.Equal(t, 1, before.lines("level=ERROR"))
		require.Equal(t, 1, after.lines("level=ERROR"))
	})
}

// The goal: no restart raises a false alarm, though the disks bring entries back, clients notice it
// one after the other, and one has ended before.
func TestFleet_ARollingRestartWithDisksIsNoAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newServers(3)
		clients := []*client{
			all.client(t, "a", "a", time.Minute, []int{0, 1, 2}),
			all.client(t, "b", "b", time.Minute, []int{0, 1, 2}),
		}
		quiet := func(doing string) {
			t.Helper()
			for _, c := range clients {
				require.Zero(t, c.fleet.Foreign(), doing)
				require.Empty(t, c.log.String(), doing)
			}
		}
		dead := all.client(t, "c", "c", time.Minute, []int{0, 1, 2})
		during(t, time.Minute, append(clients, dead)...)
		for i, s := range all {
			s.Restart()
			for _, c := range clients {
				c.lose(i)
				c.work(t, false)
				quiet("lost")
			}
			for _, c := range clients {
				time.Sleep(3 * time.Second)
				_, err := c.connect(t, i)
				require.NoError(t, err)
				quiet("connected")
				for _, c := range clients {
					c.work(t, false)
				}
				time.Sleep(3 * time.Second)
				for _, c := range clients {
					c.work(t, true)
				}
				quiet("renewed")
			}
			during(t, inUse, clients...)
			newcomer := all.client(t, "d", fmt.Sprint("d", i), time.Minute, []int{0, 1, 2})
			clients = append(clients, newcomer)
			quiet("a new client")
		}
	})
}

func TestFleet_WarnsOnceOfALongerMaxTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newServers(3)
		long := all.client(t, "long-1", "s", 20*time.Second, []int{0, 1, 2})
		short := all.client(t, "short-1", "s", time.Second, []int{0, 1, 2})
		during(t, time.Minute, long, short)
		require.Equal(t, 1, short.lines("level=WARN"), short.log.String())
		for _, says := range []string{
			" max_ttl=20s", " owner=long-1", "own_max_ttl=1s", "own_owner=short-1",
			"the same MaxTTL",
		} {
			require.Contains(t, short.log.String(), says)
		}
		require.Empty(t, long.log.String())
	})
}

// The goal: a client hears the longest wait of all entries, also of clients that have ended, until
// no lock of theirs can be left. A longer wait at the same MaxTTL, as with Sentinel, is no reason
// for a warning.
func TestNode_HearsTheLongestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newServers(1)
		all.client(t, "gone", "s", time.Second, []int{0}).renewFor(t, 24*time.Second)
		c := all.client(t, "-", "s", 20*time.Second, []int{0})
		hears := func(want time.Duration) {
			t.Helper()
			longest, err := c.renew(t, 0)
			require.NoError(t, err)
			require.Equal(t, want, longest)
		}
		hears(24 * time.Second)
		longest, err := c.connect(t, 0)
		require.NoError(t, err)
		require.Equal(t, 24*time.Second, longest)
		time.Sleep(24*time.Second + outlasts - time.Second)
		hears(24 * time.Second)
		time.Sleep(2 * time.Second)
		hears(20 * time.Second)
		require.Empty(t, c.log.String())
	})
}

// renewFor leaves an entry whose MaxTTL is 20 s with this wait.
func (c *client) renewFor(t *testing.T, wait time.Duration) {
	t.Helper()
	c.fleet.config.MaxTTL = 20 * time.Second
	c.nodes[0] = c.fleet.Node(NodeConfig{
		Name: "s0", Key: "layouts", Wait: wait, RenewSoon: func() {},
	})
	_, err := c.connect(t, 0)
	require.NoError(t, err)
}

// The goal: others learn a node's new run_id soon, and that an old one does not count.
func TestNode_ANewRunIDIsRenewedOnTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newServers(3)
		c := all.client(t, "-", "s", time.Minute, []int{0, 1, 2})
		runIDs := func(i int) map[string]string {
			hash := readHash(t, all[i])
			require.Len(t, hash, 2)
			return ParseEntries(hash, 0, time.Time{})[0].RunIDs
		}
		c.work(t, false)
		for i := range all {
			require.Equal(t, map[string]string{
				"s0": all[0].RunID(), "s1": all[1].RunID(), "s2": all[2].RunID(),
			}, runIDs(i))
		}
		require.Equal(t, []bool{false, false, false}, c.soon)
		c.lose(1)
		require.Equal(t, []bool{true, false, true}, c.soon)
		c.work(t, false)
		require.Equal(t, map[string]string{"s0": all[0].RunID(), "s2": all[2].RunID()}, runIDs(0))
		all[1].Restart()
		_, err := c.connect(t, 1)
		require.NoError(t, err)
		require.Equal(t, []bool{true, false, true}, c.soon)
		c.work(t, false)
		require.Equal(t, all[1].RunID(), runIDs(2)["s1"])
		_, err = c.connect(t, 1)
		require.NoError(t, err)
		require.Equal(t, []bool{false, false, false}, c.soon, "the same server")
	})
}

// readHash returns the fields and values of a node's key.
func readHash(t *testing.T, s *memorynode.Node) (pairs []string) {
	t.Helper()
	conn := resp.NewConn(s.Dial())
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.Do(resp.Step{
		Command: []string{"HGETALL", "layouts"},
		OnReply: func(v resp.Value) error {
			for _, item := range v.Items {
				pairs = append(pairs, item.Text)
			}
			return v.Err()
		},
	}))
	return pairs
}

// refuse has a server answer an error to the script.
func refuse(s *memorynode.Node, says string) {
	s.Before = func(args []string) string {
		if says != "" && args[0] == "EVALSHA" {
			return "-" + says + "\r\n"
		}
		return ""
	}
}

func TestNode_AServerThatRefusesTheEntryIsNotAdmitted(t *testing.T) {
	for _, says := range []string{
		"NOPERM no permission", "OOM full", "WRONGTYPE wrong", "NOSCRIPT none", "READONLY replica",
	} {
		synctest.Test(t, func(t *testing.T) {
			all := newServers(1)
			c := all.client(t, "-", "s", time.Minute, []int{0})
			refuse(all[0], says)
			_, err := c.connect(t, 0)
			require.ErrorContains(t, err, says)
			require.ErrorContains(t, err, `"layouts"`)
			require.ErrorContains(t, err, "+hset")
		})
	}
}

// The goal: a client whose renewals fail gives the node up while its entry still outlasts its
// locks. The log has said so before.
func TestNode_IsNotFreshWithoutRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newServers(1)
		c := all.client(t, "-", "s", time.Minute, []int{0})
		time.Sleep(9 * time.Second) // the script writes nothing then
		_, err := c.renew(t, 0)
		require.NoError(t, err)
		failing := false
		all[0].Before = func([]string) string {
			if failing {
				return "-NOPERM no permission\r\n"
			}
			return ""
		}
		failing = true
		for time.Now().Before(c.nodes[0].FreshUntil()) {
			require.Greater(t, all[0].TTL("layouts"), time.Minute, "a lock may be taken")
			time.Sleep(renewEvery)
			_, err = c.renew(t, 0)
			require.ErrorContains(t, err, "NOPERM")
		}
		require.Greater(t, all[0].TTL("layouts"), time.Minute)
		require.Equal(t, 1, c.lines("level=WARN"), c.log.String())
		failing = false
		_, err = c.connect(t, 0)
		require.NoError(t, err)
		require.Greater(t, time.Until(c.nodes[0].FreshUntil()), 8*time.Minute)
	})
}

// The goal: a lost connection is not logged as a permission that is missing.
func TestNode_ALostConnectionIsNoRefusal(t *testing.T) {
	all := newServers(1)
	c := all.client(t, "-", "s", time.Minute, []int{0})
	require.NoError(t, c.conns[0].Close())
	_, err := c.renew(t, 0)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "+hset")
	require.Empty(t, c.log.String())
	require.NotContains(t, c.nodes[0].Admit(c.conns[0], "x").Error(), "+hset")
}

// The goal: layouts of any length fit into what a node keeps, and are never the reason for a loss
// of the wait.
func TestNode_LayoutsThatAreTooLongAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newServers(1)
		many := make([]int, 1000)
		c := &client{servers: all, conns: make([]*resp.Conn, 1), soon: make([]bool, 1)}
		g := Group{Nodes: []string{"s0"}}
		for i := range many {
			g.Nodes = append(g.Nodes, fmt.Sprint("node-", i))
		}
		c.fleet = New(Config{
			Layouts: [][]Group{{g}}, MaxTTL: time.Minute,
			Logger: slog.New(slog.DiscardHandler),
		})
		c.nodes = []*Node{c.fleet.Node(NodeConfig{Name: "s0", Key: "layouts", Wait: time.Minute})}
		_, err := c.connect(t, 0)
		require.NoError(t, err)
		other := all.client(t, "-", "s", time.Second, []int{0})
		longest, err := other.renew(t, 0)
		require.NoError(t, err)
		require.Equal(t, time.Minute, longest)
		require.Zero(t, other.fleet.Foreign())
		require.Equal(t, "-", ParseEntries(readHash(t, all[0]), 0, time.Time{})[0].Owner)
	})
}

// The goal: a group's nodes may be added while those of another are in use already.
func TestFleet_NodesAreAddedWhileOthersAreInUse(t *testing.T) {
	all := newServers(1)
	c := all.client(t, "-", "s", time.Minute, []int{0})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			c.fleet.Node(NodeConfig{RenewSoon: func() {}})
		}
	}()
	for range 100 {
		c.lose(0)
		_, err := c.connect(t, 0)
		require.NoError(t, err)
	}
	<-done
	require.Zero(t, c.fleet.Foreign())
}

func TestParseEntries_LeavesOutWhatIsNone(t *testing.T) {
	good := `{"wait_ms":5,"max_ttl_ms":5,"layouts":null}`
	pairs := []string{good, "1000 me {}"}
	for _, odd := range [][2]string{
		{good, "999 me {}"},
		{good, ""},
		{good, "x me {}"},
		{good, "1001 me"},
		{good, "1001 me x"},
		{"", "1001 me {}"},
		{"A,B", "1001 me {}"},
		{`{"wait_ms":4,"max_ttl_ms":5,"layouts":[]}`, "1001 me {}"},
		{`{"wait_ms":0,"max_ttl_ms":0,"layouts":[]}`, "1001 me {}"},
	} {
		pairs = append(pairs, odd[0], odd[1])
	}
	now := time.Now()
	require.Equal(t, []Entry{{
		WaitMillis: 5, MaxTTLMillis: 5, Owner: "me", RunIDs: map[string]string{},
		Until: now.Add(time.Millisecond),
	}}, ParseEntries(append(pairs, "odd"), 999, now))
}

func TestDescribe_IsForPeople(t *testing.T) {
	require.Equal(t, "a:1,b:1 and next g a:1; h c:1", describe([][]Group{
		{{Nodes: []string{"a:1", "b:1"}}},
		{{Name: "g", Nodes: []string{"a:1"}}, {Name: "h", Nodes: []string{"c:1"}}},
	}))
}
