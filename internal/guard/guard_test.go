package guard

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// masters are in memory.
type masters struct{ nodes []*memorynode.Node }

func newFleet(nodes int) *masters {
	f := new(masters)
	for i := range nodes {
		f.nodes = append(f.nodes, memorynode.New(i, 1))
	}
	return f
}

// client is a client of a fleet.
type client struct {
	t      *testing.T
	fleet  *masters
	peers  *Peers
	guards []*Guard
	maxTTL time.Duration
	log    bytes.Buffer
	silent []bool // nodes that do not answer when they are to be asked for their entries
	// admitted is called when a node was admitted, before it takes its seat.
	admitted func(i int)
	turns    []chan struct{} // of each node: for one goroutine at a time
}

// client returns a client with this MaxTTL. change may change its guards; nil changes nothing.
func (f *masters) client(t *testing.T, maxTTL time.Duration, change func(*Config)) *client {
	t.Helper()
	c := &client{
		t: t, fleet: f, maxTTL: maxTTL, silent: make([]bool, len(f.nodes)), admitted: func(int) {},
	}
	c.peers = NewPeers(len(f.nodes), []quorum.Nodes{quorum.First(len(f.nodes))})
	clients := fleet.New(fleet.Config{MaxTTL: maxTTL, Logger: slog.New(slog.DiscardHandler)})
	logger := slog.New(slog.NewTextHandler(&c.log, nil))
	for i := range f.nodes {
		cfg := Config{Node: i, Name: fmt.Sprint("n", i), Key: "key", Logger: logger}
		if change != nil {
			change(&cfg)
		}
		cfg.Layouts = clients.Node(fleet.NodeConfig{
			Name: cfg.Name, Key: "layouts", Wait: maxTTL + cfg.Extra,
			RenewSoon: func() { go c.renew(i) },
		})
		c.guards = append(c.guards, c.peers.Guard(cfg))
		c.turns = append(c.turns, make(chan struct{}, 1))
	}
	return c
}

// renew renews the client's entry on a node that answers.
func (c *client) renew(i int) {
	c.turns[i] <- struct{}{}
	defer func() { <-c.turns[i] }()
	if n := c.guards[i].config.Layouts; !c.silent[i] {
		conn := resp.NewConn(c.fleet.nodes[i].Dial())
		defer func() { _ = conn.Close() }()
		_, _ = conn.Ask("SCRIPT", "LOAD", script.Layouts.Source)
		_ = n.Admit(conn, c.fleet.nodes[i].RunID())
	}
}

// look makes a handshake with a node. The error is nil if the node votes.
func (c *client) look(i int) error {
	c.t.Helper()
	c.turns[i] <- struct{}{}
	defer func() { <-c.turns[i] }()
	conn := c.fleet.nodes[i].Dial()
	defer func() { _ = conn.Close() }()
	server, err := c.guards[i].Admit(c.t.Context(), conn, []resp.Step{
		{Command: []string{"SCRIPT", "LOAD", script.Guard.Source}},
		{Command: []string{"SCRIPT", "LOAD", script.Layouts.Source}},
	})
	if err == nil && server.Memory != "" {
		text, _ := c.fleet.nodes[i].Get("key")
		require.Equal(c.t, text, server.Memory)
	}
	if err == nil {
		c.admitted(i)
		c.guards[i].Joined()
	}
	return err
}

// lookAtAll looks at all nodes at the same time, and returns how many vote.
func (c *client) lookAtAll() (votes int) {
	var all sync.WaitGroup
	errs := make([]error, len(c.guards))
	for i := range c.guards {
		all.Go(func() { errs[i] = c.look(i) })
	}
	all.Wait()
	for _, err := range errs {
		if err == nil {
			votes++
		}
	}
	return votes
}

// quarantined looks at a node that does not vote, and returns why and for how long.
func (c *client) quarantined(i int, why string) time.Duration {
	c.t.Helper()
	var q *Quarantine
	require.ErrorAs(c.t, c.look(i), &q)
	require.Contains(c.t, q.Reason, why)
	return time.Until(q.Until)
}

// key is the guard's key on a node.
func (f *masters) key(i int) string {
	text, _ := f.nodes[i].Get("key")
	return text
}

func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// The goal: nodes that were never used vote within a moment, for several clients that come
// together, and then for who comes later.
func TestGuard_AFirstUseTakesAMoment(t *testing.T) {
	for _, nodes := range []int{1, 3, 5} {
		bubble(t, func(t *testing.T) {
			f, begun := newFleet(nodes), time.Now()
			a, b := f.client(t, forLocks, nil), f.client(t, forLocks, nil)
			var both sync.WaitGroup
			for _, c := range []*client{a, b} {
				both.Go(func() {
					for c.lookAtAll() < nodes {
						time.Sleep(lookAgain)
					}
				})
			}
			both.Wait()
			require.Less(t, time.Since(begun), firstUseTimeout)
			require.GreaterOrEqual(t, time.Since(begun), settles)
			for i, n := range f.nodes {
				require.Equal(t, n.RunID(), f.key(i))
				require.Zero(t, n.TTL("key"), "it does not end")
			}
			before := time.Now()
			require.Equal(t, nodes, f.client(t, forLocks, nil).lookAtAll())
			require.Equal(t, before, time.Now())
			require.False(t, a.peers.MayBeFirstUse())
		})
	}
}

// The goal: while a node is missing there is no first use, and the others wait for W from the first
// sight, also for clients that live for a moment.
func TestGuard_ClientsThatLiveForAMomentShareAWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, begun := newFleet(3), time.Now()
		for {
			c := f.client(t, forLocks, nil)
			require.True(t, c.peers.MayBeFirstUse())
			_, _ = c.look(0), c.look(1) // each hears of the other
			if c.look(0) == nil && c.look(1) == nil {
				break
			}
			require.Less(t, time.Since(begun), forLocks+5*second)
		}
		require.GreaterOrEqual(t, time.Since(begun), forLocks)
	})
}

// The goal: without a first use new nodes wait as well, if the client is strict.
func TestGuard_AStrictClientMakesNoFirstUse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(1)
		c := f.client(t, forLocks, func(c *Config) { c.Strict = true })
		require.False(t, c.peers.MayBeFirstUse())
		left := c.quarantined(0, reasonNoKey)
		require.InDelta(t, forLocks+second, left, 0)
		require.Contains(t, f.key(0), "lost:10000:"+f.nodes[0].RunID())
		time.Sleep(left)
		require.NoError(t, c.look(0))
	})
}

// votes has all nodes of a new fleet vote for a client.
func votes(t *testing.T, nodes int) (*masters, *client) {
	t.Helper()
	f := newFleet(nodes)
	c := f.client(t, forLocks, nil)
	for c.lookAtAll() < nodes {
		time.Sleep(lookAgain)
	}
	synctest.Wait() // what it renews is renewed
	return f, c
}

// The goal: whatever takes a node's memory, it waits for W, says why, and votes then. A client that
// knows nothing waits as long.
func TestGuard_ALossIsAWait(t *testing.T) {
	for name, tc := range map[string]struct {
		lose   func(*masters)
		why    string
		others string // what another client says that knew nothing
	}{
		"flushed":   {func(f *masters) { f.nodes[0].Wipe() }, reasonWiped, reasonWaits},
		"restarted": {func(f *masters) { f.nodes[0].Restart() }, reasonRestarted, reasonWaits},
		"durable": {func(f *masters) {
			f.nodes[0].Durable = true
			f.nodes[0].Restart()
		}, reasonRestarted, reasonWaits},
		"promoted": {func(f *masters) {
			f.nodes[0].TakeSnapshot()
			f.nodes[0].Failover(time.Minute)
		}, reasonRestarted, reasonWaits},
		"demoted, and promoted": {func(f *masters) {
			f.nodes[0].Demote(f.nodes[0].KeysFor(f.nodes[0]))
			f.nodes[0].Promote()
		}, reasonRestarted, reasonWaits},
		"its key was deleted":  {func(f *masters) { f.nodes[0].Delete("key") }, reasonWiped, reasonWaits},
		"its key was replaced": {func(f *masters) { f.nodes[0].Set("key", "odd one") }, reasonForeign, reasonWaits},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, c := votes(t, 3)
				tc.lose(f)
				lost := time.Now()
				require.InDelta(t, forLocks+second, c.quarantined(0, tc.why), 0)
				late := f.client(t, forLocks, nil)
				require.NoError(t, late.look(1))
				require.InDelta(t, forLocks+second, late.quarantined(0, tc.others), 0)
				require.NoError(t, late.look(2))
				require.NoError(t, c.look(2))
				time.Sleep(forLocks)
				require.InDelta(t, second, c.quarantined(0, tc.why), 0)
				time.Sleep(second)
				require.NoError(t, late.look(0))
				require.NoError(t, c.look(0))
				require.InDelta(t, forLocks+second, time.Since(lost), float64(2*lookAgain))
			})
		})
	}
}

// The goal: a wait that began again lasts again.
func TestGuard_ASecondLossBeginsAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, c := votes(t, 3)
		f.nodes[0].Restart()
		c.quarantined(0, reasonRestarted)
		time.Sleep(forLocks)
		f.nodes[0].Wipe()
		require.InDelta(t, forLocks+second, c.quarantined(0, reasonRestarted), 0)
		require.True(t, strings.HasPrefix(f.key(0), isLost))
	})
}

// The goal: all nodes that lose their memory are no first use, neither for a client that knew them,
// nor for one that comes behind it.
func TestGuard_AClientThatKnowsRulesOutAFirstUse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, c := votes(t, 3)
		for _, n := range f.nodes {
			n.Restart()
		}
		require.Zero(t, c.lookAtAll())
		require.Zero(t, f.client(t, forLocks, nil).lookAtAll())
		time.Sleep(forLocks + second)
		c.lookAtAll() // they hear each other
		require.Equal(t, 3, c.lookAtAll())
	})
}

// The goal: who finds names on some nodes calls the others lost three seconds later: another
// client's first use may be half written.
func TestGuard_NamesElsewhereRuleOutAFirstUse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(3)
		f.nodes[1].Set("key", f.nodes[1].RunID())
		c := f.client(t, forLocks, nil)
		require.Error(t, c.look(0))
		require.NoError(t, c.look(1))
		require.False(t, c.peers.MayBeFirstUse())
		require.True(t, strings.HasPrefix(f.key(0), isNew))
		left := c.quarantined(0, "")
		time.Sleep(halfWritten)
		require.Equal(t, left-halfWritten, c.quarantined(0, ""), "it keeps its age")
		require.True(t, strings.HasPrefix(f.key(0), isLost))
	})
}

// The goal: a client with a short MaxTTL ends no wait before that of a client with a long one is
// over, of which it hears on the node, or on others.
func TestGuard_TheLongestMaxTTLCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, long := votes(t, 3)
		short := f.client(t, second, nil)
		require.Equal(t, 3, short.lookAtAll())
		synctest.Wait()
		f.nodes[0].Restart()
		short = f.client(t, second, nil)
		short.silent[1], short.silent[2] = true, true
		lost := time.Now()
		require.InDelta(t, 2*second, short.quarantined(0, ""), float64(second))
		synctest.Wait()
		short.silent[1], short.silent[2] = false, false
		time.Sleep(2 * second)
		left := short.quarantined(0, "")
		require.InDelta(t, 8*second, left, float64(second), "it has heard of the others")
		require.Contains(t, f.key(0), ":10000:", "the record has it now")
		time.Sleep(left)
		require.NoError(t, short.look(0))
		require.InDelta(t, forLocks+second, time.Since(lost), float64(2*lookAgain))
		require.NoError(t, long.look(0))
	})
}

// The goal: a wait ends when a quorum was heard since it is over, and all that may answer were
// asked. Two names of one server are one that was heard.
func TestGuard_HearsAQuorumBeforeAWaitEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, c := votes(t, 5)
		f.nodes[0].Restart()
		require.Error(t, c.look(0))
		for i := range c.silent {
			c.renew(i)
			c.silent[i] = true
		}
		time.Sleep(forLocks + second)
		begun := time.Now()
		c.quarantined(0, reasonSilent)
		require.GreaterOrEqual(t, time.Since(begun), firstUseTimeout, "it waits for them")
		synctest.Wait()
		c.silent[1] = false
		c.quarantined(0, reasonSilent)
		synctest.Wait()
		former := f.nodes[2]
		f.nodes[2], c.silent[2] = f.nodes[1], false
		c.quarantined(0, reasonSilent)
		synctest.Wait()
		f.nodes[2] = former
		require.NoError(t, c.look(0), "two others")
	})
}

// The goal: a server whose clock is set forward in a wait does not vote sooner for a client that
// saw the wait begin. Set back, the wait begins again.
func TestGuard_AClockThatIsSet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, c := votes(t, 1)
		f.nodes[0].Restart()
		c.quarantined(0, reasonRestarted)
		f.nodes[0].AdvanceClock(time.Hour)
		require.InDelta(t, forLocks+second, c.quarantined(0, reasonRestarted), 0)
		time.Sleep(forLocks + second)
		require.NoError(t, c.look(0))

		f.nodes[0].Restart()
		c.quarantined(0, reasonRestarted)
		time.Sleep(forLocks)
		f.nodes[0].AdvanceClock(-time.Hour)
		require.InDelta(t, forLocks+second, c.quarantined(0, reasonRestarted), 0)
	})
}

// The goal: a server that comes back to its name after another one has missed its locks, whatever
// its key says. The log says what is wrong.
func TestGuard_AServerThatReturnsWaits(t *testing.T) {
	for name, setKey := range map[string]func(f *masters, a *memorynode.Node){
		"with its name": func(*masters, *memorynode.Node) {},
		"with an old record": func(_ *masters, a *memorynode.Node) {
			a.Set("key", newRecord(isLost, forLocks, a.RunID()).text())
			a.AdvanceClock(time.Hour)
		},
		"without a key": func(_ *masters, a *memorynode.Node) { a.Delete("key") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, c := votes(t, 1)
				a, b := f.nodes[0], memorynode.New(1, 1)
				f.nodes[0] = b
				c.quarantined(0, reasonRestarted)
				time.Sleep(forLocks + second)
				require.NoError(t, c.look(0))
				setKey(f, a)
				for range 2 { // also when it happens again
					f.nodes[0] = a
					require.InDelta(t, forLocks+second, c.quarantined(0, reasonReturned), 0)
					require.Equal(t, 1, strings.Count(c.log.String(), "leads to more than one server"))
					other := f.client(t, forLocks, nil)
					other.quarantined(0, reasonWaits)
					time.Sleep(forLocks + second)
					require.NoError(t, c.look(0))
					f.nodes[0] = b
					require.Error(t, c.look(0))
					c.log.Reset()
					time.Sleep(forLocks + second)
					require.NoError(t, c.look(0))
				}
			})
		})
	}
}

// The goal: a node that a Sentinel names waits longer.
func TestGuard_WaitsLongerForAMasterBySentinel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(1)
		c := f.client(t, forLocks, func(c *Config) { c.Strict, c.Extra = true, 4*second })
		require.InDelta(t, forLocks+5*second, c.quarantined(0, reasonNoKey), 0)
		direct := f.client(t, forLocks, func(c *Config) { c.Strict = true })
		require.InDelta(t, forLocks+5*second, direct.quarantined(0, ""), 0)
	})
}

// The goal: a client takes back what a stopped server has not read from its former connection.
func TestGuard_EndsItsFormerConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, c := votes(t, 1)
		var killed []string
		f.nodes[0].Before = func(args []string) string {
			if args[0] == "CLIENT" && args[1] == "KILL" {
				killed = append(killed, strings.Join(args, " "))
			}
			return ""
		}
		former := c.guards[0].server.clientID
		require.NotEmpty(t, former)
		require.NoError(t, c.look(0))
		require.Equal(t, []string{"CLIENT KILL ID " + former}, killed)
		f.nodes[0].Restart()
		c.quarantined(0, "")
		time.Sleep(forLocks + second)
		require.NoError(t, c.look(0))
		require.Len(t, killed, 1, "another server does not know it")
	})
}

// The goal: what the guard may not do is said, with the key, and the node does not vote.
func TestGuard_WithoutAPermission(t *testing.T) {
	for command, says := range map[string]string{
		"GET":            `the restart guard's key "key" can't be read: NOPERM`,
		script.Guard.SHA: `the restart guard's key "key" can't be written: NOPERM`,
		"INFO":           "can't use INFO: NOPERM no permission; give the user +info, or use GuardOff",
	} {
		bubble(t, func(t *testing.T) {
			f := newFleet(1)
			f.nodes[0].Before = func(args []string) string {
				if slices.Contains(args[:min(len(args), 2)], command) {
					return "-NOPERM no permission\r\n"
				}
				return ""
			}
			require.ErrorContains(t, f.client(t, forLocks, nil).look(0), says)
			require.Empty(t, f.key(0))
		})
	}
}

// The goal: a server without a run_id can't be guarded. A strict client refuses it, another one
// warns once. Who knew a run_id there refuses it too.
func TestGuard_OfAServerWithoutARunID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(1)
		f.nodes[0].HidesRunID = true
		c := f.client(t, forLocks, nil)
		require.NoError(t, c.look(0))
		require.NoError(t, c.look(0))
		require.Equal(t, 1, strings.Count(c.log.String(), "has no restart guard"))
		require.Empty(t, f.key(0))
		strict := f.client(t, forLocks, func(c *Config) { c.Strict = true })
		require.ErrorContains(t, strict.look(0), "GuardStrict admits no such server")

		f, c = votes(t, 1)
		f.nodes[0].HidesRunID = true
		require.ErrorContains(t, c.look(0), "does not show a run_id any more")
	})
}

// The goal: a replica never votes.
func TestGuard_AReplicaDoesNotVote(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, c := votes(t, 1)
		f.nodes[0].Demote(f.nodes[0].KeysFor(f.nodes[0]))
		require.ErrorIs(t, c.look(0), errReplica)
		bySentinel := f.client(t, forLocks, func(c *Config) { c.Extra = second })
		require.ErrorIs(t, bySentinel.look(0), errNamedReplica)
	})
}

// The goal: without the guard every master votes, and no key is read or written. The entry is left.
func TestGuard_Off(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(1)
		f.nodes[0].Before = func(args []string) string {
			if len(args) > 1 && args[1] == "key" {
				t.Error(args)
			}
			return ""
		}
		require.NoError(t, f.client(t, forLocks, func(c *Config) { c.Key = "" }).look(0))
		require.Positive(t, f.nodes[0].TTL("layouts"))
	})
}

// The goal: a handshake ends with its context, and with a key that changes all the time.
func TestGuard_AHandshakeEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(1)
		c := f.client(t, forLocks, nil)
		f.nodes[0].Before = func(args []string) string {
			if len(args) > 1 && args[1] == script.Guard.SHA {
				return ":0\r\n"
			}
			return ""
		}
		require.ErrorContains(t, c.look(0), "changes all the time")
		f.nodes[0].Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		conn := f.nodes[0].Dial()
		_, err := c.guards[0].Admit(ctx, conn, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		f.nodes[0].Thaw()
	})
}

// The goal: a server that can be no node is told by what it says of itself.
func TestServer_Unfit(t *testing.T) {
	for info, says := range map[string]string{
		"redis_mode:sentinel":                        "it is a Redis Sentinel",
		"redis_mode:cluster":                         "it is a node of a Redis Cluster",
		"redis_version:6.0.16":                       "it runs Redis 6.0.16",
		"redis_version:6.2.0":                        "",
		"redis_mode:cluster\r\ndragonfly_version:v1": "",
		"redis_version:5.0.0\r\nother_version:9":     "",
	} {
		err := Unfit(resp.ParseInfo(info))
		if says == "" {
			require.NoError(t, err, info)
			continue
		}
		require.ErrorContains(t, err, says)
	}
	var s server
	require.ErrorIs(t, s.readServer(resp.Value{Kind: ':', Text: "1"}), resp.ErrNotRedis)
	require.NotErrorIs(t, s.infoErr, resp.ErrNotRedis)
}
