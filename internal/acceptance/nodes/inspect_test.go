package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// inspected is what is found, of nodes that are all up or known to be down.
func inspected(t *testing.T, c *lockpipe.Client) lockpipe.Inspection {
	t.Helper()
	kit.Eventually(t, func() bool {
		for _, n := range c.Nodes() {
			if n.State == lockpipe.NodeConnecting {
				return false
			}
		}
		return true
	}, "a node is neither up nor down")
	all, err := c.Inspect(t.Context())
	require.NoError(t, err)
	return all
}

// about is the findings about one node, or about all for "".
func about(all lockpipe.Inspection, node string) lockpipe.Inspection {
	var found lockpipe.Inspection
	for _, f := range all {
		if f.Node == node {
			found = append(found, f)
		}
	}
	return found
}

// finds wants exactly one finding about the node that says this, and of this severity.
func finds(t *testing.T, all lockpipe.Inspection, node string, severity lockpipe.Severity,
	says string,
) {
	t.Helper()
	var matching lockpipe.Inspection
	for _, f := range about(all, node) {
		if strings.Contains(f.Text, says) {
			matching = append(matching, f)
		}
	}
	require.Len(t, matching, 1, "%q about %s in %v", says, node, all)
	require.Equal(t, severity, matching[0].Severity, says)
}

// withoutClock lets the tests ignore how busy this machine is: then a trip may take too long to
// tell the rate of a clock.
func withoutClock(all lockpipe.Inspection) lockpipe.Inspection {
	var rest lockpipe.Inspection
	for _, f := range all {
		if !strings.Contains(f.Text, "its answers took too long") {
			rest = append(rest, f)
		}
	}
	return rest
}

// The goal: real masters as they should be give three lines of information each, in the order of
// the configuration, then the layout in use, and nothing else.
func TestInspect_HealthyMasters(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	all := withoutClock(inspected(t, kit.Connected(t, kit.NewClient(t, nodes))))
	require.Len(t, all, 10)
	require.Equal(t, lockpipe.SeverityInfo, all.Worst())
	require.Contains(t, all[9].Text, "layouts in use: ")
	for i, f := range all[:9] {
		require.Equal(t, kit.Address(nodes, i/3), f.Node)
	}
	finds(t, all, kit.Address(nodes, 0), lockpipe.SeverityInfo, "answers within")
	finds(t, all, kit.Address(nodes, 2), lockpipe.SeverityInfo, "does not vote for MaxTTL (1m0s) after a restart")
	finds(t, all, kit.Address(nodes, 1), lockpipe.SeverityInfo, "admitted by the restart guard")
	text, err := json.Marshal(all[:1])
	require.NoError(t, err)
	require.Contains(t, string(text), `[{"node":"`+kit.Address(nodes, 0)+`","severity":"info","text":"`)
}

// The goal: each odd configuration of a real master is found, on that node.
func TestInspect_OddMasters(t *testing.T) {
	kit.SkipIfShort(t, "the inspection of seven servers with odd configurations")
	t.Parallel()
	dir := t.TempDir() // before the nodes, so that it outlasts them
	nodes := servertest.Start(t, 7)
	set := func(i int, name, value string) { kit.Do(t, nodes, i, "CONFIG", "SET", name, value) }
	set(1, "maxmemory-policy", "allkeys-lru")
	set(1, "maxmemory", "1gb")
	set(2, "maxmemory", "1gb")
	set(3, "dir", dir)
	set(3, "appendfsync", "always")
	set(3, "appendonly", "yes")
	kit.Eventually(t, func() bool {
		info, _ := kit.Do(t, nodes, 3, "INFO", "persistence").(string)
		return strings.Contains(info, "aof_rewrite_in_progress:0") &&
			strings.Contains(info, "aof_rewrite_scheduled:0")
	}, "the AOF is not written")
	host, port, _ := strings.Cut(kit.Address(nodes, 0), ":")
	kit.Do(t, nodes, 4, "REPLICAOF", host, port)
	kit.Do(t, nodes, 5, "ACL", "SETUSER", "me", "on", ">secret", "~*", "+@all", "-info", "-config")
	c := kit.NewClient(t, nodes, func(cfg *lockpipe.Config) {
		cfg.Nodes[5] = "redis://me:secret@" + kit.Address(nodes, 5)
		cfg.Nodes[6] = "redis://me:secret@" + kit.Address(nodes, 6)
		cfg.RestartGuard = lockpipe.GuardOff // which admits a server without INFO
	})
	kit.Eventually(t, func() bool {
		up := 0
		for _, n := range c.Nodes() {
			if n.State == lockpipe.NodeUp {
				up++
			}
		}
		return up == 5
	}, "a node does not come up")
	kit.Do(t, nodes, 5, "ACL", "SETUSER", "me", "-time") // without it the node does not come up
	all := inspected(t, c)
	finds(t, all, kit.Address(nodes, 1), lockpipe.SeverityError, "maxmemory-policy allkeys-lru")
	finds(t, all, kit.Address(nodes, 2), lockpipe.SeverityWarning,
		"refuses locks when it uses the 1 GiB")
	finds(t, all, kit.Address(nodes, 3), lockpipe.SeverityInfo, "a restart keeps them")
	finds(t, all, kit.Address(nodes, 4), lockpipe.SeverityError,
		"is a replica of "+kit.Address(nodes, 0)+
			" and refuses locks")
	finds(t, all, kit.Address(nodes, 4), lockpipe.SeverityError,
		"is a replica of "+kit.Address(nodes, 0)+
			", which is listed as well")
	finds(t, all, kit.Address(nodes, 5), lockpipe.SeverityInfo, "give the user +info")
	finds(t, all, kit.Address(nodes, 5), lockpipe.SeverityInfo, "give the user +config|get")
	finds(t, all, kit.Address(nodes, 5), lockpipe.SeverityInfo, "give the user +time")
	finds(t, all, kit.Address(nodes, 5), lockpipe.SeverityInfo, "the server answers within")
	finds(t, all, kit.Address(nodes, 6), lockpipe.SeverityError,
		"can't be used and has no vote (WRONGPASS")
	require.Len(t, about(withoutClock(all), kit.Address(nodes, 5)), 4)
	for _, f := range all {
		require.NotContains(t, f.Text, "secret")
		require.NotContains(t, f.Node, "@")
	}
}

// The goal: one server under two names is found, though only one of them is connected.
func TestInspect_FindsTheSameServerTwice(t *testing.T) {
	kit.SkipIfShort(t, "the inspection of one server under two names")
	t.Parallel()
	nodes := servertest.Start(t, 2)
	twice := strings.Replace(kit.Address(nodes, 0), "127.0.0.1", "localhost", 1)
	c := kit.Connected(t,
		kit.NewClient(t, nodes, func(cfg *lockpipe.Config) { cfg.MaxTTL = kit.LongTTL }))
	all := inspected(t, c)
	require.NotContains(t, fmt.Sprint(all), "same server")
	c = kit.NewClient(t, nodes, func(cfg *lockpipe.Config) { cfg.Nodes = append(cfg.Nodes, twice) })
	first := c.Nodes()[0]
	kit.Eventually(t, func() bool {
		first = c.Nodes()[0]
		return first.State != lockpipe.NodeConnecting && c.Nodes()[1].State == lockpipe.NodeUp &&
			c.Nodes()[2].State != lockpipe.NodeConnecting
	}, "the nodes do not become known")
	second, other := twice, kit.Address(nodes, 0)
	if first.State != lockpipe.NodeUp { // it came later
		second, other = other, second
	}
	finds(t, inspected(t, c), second, lockpipe.SeverityError, "is the same server as "+other)
}

// The goal: a node that is dead and one that was stopped are findings, and do not spoil the others.
func TestInspect_NodesThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	kit.SkipIfShort(t, "the inspection of servers that are silent")
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	require.NoError(t, nodes.Kill(0))
	down(t, c, 0, "refused")
	require.NoError(t, nodes.Freeze(1))
	all := inspected(t, c)
	finds(t, all, kit.Address(nodes, 0), lockpipe.SeverityError, "connection refused")
	finds(t, all, kit.Address(nodes, 1), lockpipe.SeverityError, "can't be used")
	finds(t, all, kit.Address(nodes, 2), lockpipe.SeverityInfo, "answers within")
	require.Equal(t, lockpipe.SeverityInfo, about(all, kit.Address(nodes, 2)).Worst())
}

// The goal: the client inspects servers that know little of INFO as far as possible.
func TestInspect_ServersThatKnowLittle(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 4, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		for i := range v.Nodes {
			v.Intercept(i, func(command string, _ []string) string {
				switch command {
				case "INFO":
					return resptest.Bulk("# Stats\r\n")
				case "CONFIG":
					return kit.Failed("ERR unknown command")
				}
				return ""
			})
		}
		began := time.Now()
		all, err := c.Inspect(t.Context())
		require.NoError(t, err)
		require.Less(t, time.Since(began), 2*time.Second)
		require.Equal(t, lockpipe.SeverityInfo, all.Worst())
		for _, node := range v.URLs {
			require.Len(t, about(all, node), 3)
			finds(t, all, node, lockpipe.SeverityInfo, "no Redis or Valkey that tells its version")
			finds(t, all, node, lockpipe.SeverityInfo, "the server answers within 0s")
			finds(t, all, node, lockpipe.SeverityInfo, "does not know CONFIG GET")
		}
		finds(t, all, "", lockpipe.SeverityInfo, "4 nodes tolerate as many failures as 3 would")
	})
}

// The goal: a server is found if its clock runs faster or slower than the drift allowance. A server
// within the allowance is not, whatever its time.
func TestInspect_FindsAClockThatRunsWrong(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		began := time.Now()
		for i, rate := range []float64{1.02, 0.98, 1.009} {
			v.Intercept(i, func(command string, _ []string) string {
				if command != "TIME" {
					return ""
				}
				micros := 1e15 + int64(rate*float64(time.Since(began).Microseconds()))
				return resptest.Strings(fmt.Sprint(micros/1e6), fmt.Sprint(micros%1e6))
			})
		}
		all, err := c.Inspect(t.Context())
		require.NoError(t, err)
		finds(t, all, v.URLs[0], lockpipe.SeverityError, "its clock ran 2.0 % too fast")
		finds(t, all, v.URLs[1], lockpipe.SeverityError, "its clock ran 2.0 % too slow")
		require.Equal(t, lockpipe.SeverityInfo, about(all, v.URLs[2]).Worst())
		require.Len(t, about(all, v.URLs[2]), 2)
	})
}

// The goal: a node that the restart guard does not admit is an error that says why.
func TestInspect_NodesThatAreNotAdmitted(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	for i := range 2 {
		kit.Do(t, nodes, i, "SET", kit.Prefix+"lockpipe:admitted", "another server")
	}
	host, port, _ := strings.Cut(kit.Address(nodes, 0), ":")
	kit.Do(t, nodes, 2, "REPLICAOF", host, port)
	all := inspected(t, kit.NewClient(t, nodes))
	finds(t, all, kit.Address(nodes, 0), lockpipe.SeverityError, "has no vote: quarantined until")
	finds(t, all, kit.Address(nodes, 2), lockpipe.SeverityError, "READONLY: it is a replica")
}

// The goal: a node whose user is refused, or has too few permissions, is an error with a remedy of
// its own.
func TestInspect_NamesTheRemedyForEachUser(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	kit.Do(t, nodes, 0, "CONFIG", "SET", "requirepass", "pw")
	kit.Do(t, nodes, 1, "CONFIG", "SET", "requirepass", "pw")
	kit.Do(t, nodes, 2, "ACL", "SETUSER", "me", "on", ">pw", "~*", "+@all", "-evalsha")
	c := kit.NewClient(t, nodes, func(cfg *lockpipe.Config) {
		cfg.Nodes[1] = "redis://:wrong@" + kit.Address(nodes, 1)
		cfg.Nodes[2] = "redis://me:pw@" + kit.Address(nodes, 2)
	})
	all := inspected(t, c)
	for i, says := range [][2]string{
		{"(NOAUTH ", "put user and password into its URL"},
		{"(WRONGPASS ", "correct the user or password in its URL"},
		{"NOPERM ", "give its user the permissions that docs/operations.md lists"},
	} {
		finds(t, all, kit.Address(nodes, i), lockpipe.SeverityError, says[0])
		finds(t, all, kit.Address(nodes, i), lockpipe.SeverityError, says[1])
	}
	require.Len(t, about(all, kit.Address(nodes, 0)), 1)
	require.Len(t, about(all, kit.Address(nodes, 1)), 1)
	finds(t, all, kit.Address(nodes, 2), lockpipe.SeverityInfo, "answers within")
}

// The goal: what is wrong with a node that has no vote is found as with any other.
func TestInspect_JudgesNodesWithoutAVote(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	kit.Do(t, nodes, 1, "SET", kit.Prefix+"lockpipe:admitted", "another server")
	kit.Do(t, nodes, 1, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	kit.Do(t, nodes, 1, "CONFIG", "SET", "maxmemory", "1gb")
	c := kit.NewClient(t, nodes, func(cfg *lockpipe.Config) { cfg.MaxTTL = kit.LongTTL })
	all := inspected(t, c)
	finds(t, all, kit.Address(nodes, 1), lockpipe.SeverityError, "has no vote: quarantined until")
	finds(t, all, kit.Address(nodes, 1), lockpipe.SeverityError, "evicts keys when its memory is full")
	finds(t, all, kit.Address(nodes, 1), lockpipe.SeverityInfo, "answers within")
}

// The goal: nodes that hang are waited for at the same time and not for long, wherever in the
// inspection they hang.
func TestInspect_DoesNotWaitLongForNodesThatHang(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"INFO", "TIME"} {
		kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			for i := range 4 {
				defer v.Hang(i, command)()
			}
			began := time.Now()
			all, err := c.Inspect(t.Context())
			require.NoError(t, err)
			require.LessOrEqual(t, time.Since(began), 8*time.Second)
			for i := range 4 {
				finds(t, all, v.URLs[i], lockpipe.SeverityError, "can't be used")
			}
			require.Equal(t, lockpipe.SeverityInfo, about(all, v.URLs[4]).Worst())
		})
	}
}

// The goal: an inspection ends after DialTimeout and three seconds, even if a node is slow in
// everything and is only just not given up before.
func TestInspect_GivesUpANodeThatIsSlowInEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 3)
		v.Nodes[1].Durable = true // otherwise it should have a restart guard
		var asked time.Time
		hung := make(chan struct{})
		connecting := true
		v.Intercept(0, func(command string, _ []string) string {
			switch {
			case command == "HELLO":
				connecting = false
			case command == "INFO" && !connecting:
				time.Sleep(1400 * time.Millisecond)
			case command == "TIME" && asked.IsZero():
				asked = time.Now()
			case command == "TIME" && time.Since(asked) > 950*time.Millisecond:
				<-hung
			}
			return ""
		})
		c, err := lockpipe.New(kit.Config(v.URLs, []func(*lockpipe.Config){func(
			cfg *lockpipe.Config,
		) {
			cfg.RestartGuard, cfg.DialTimeout = lockpipe.GuardOff, time.Second
			cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if addr == v.URLs[0] {
					time.Sleep(900 * time.Millisecond)
				}
				return v.Dial(ctx, network, addr)
			}
		}}))
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(t.Context())) }()
		defer func() { close(hung); synctest.Wait() }()
		began := time.Now()
		all, err := c.Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, 4*time.Second, time.Since(began))
		finds(t, all, v.URLs[0], lockpipe.SeverityError, "can't be used and has no vote (no "+
			"answer in time)")
		require.Equal(t, lockpipe.SeverityInfo, about(all, v.URLs[1]).Worst())
	})
}

// The goal: calls at the same time share one inspection, the caller that started it may leave, and
// a later call inspects again.
func TestInspect_CallsAtTheSameTimeAreOne(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		asked := make(chan int, 1000)
		v.Watch(func(i int, command string, _ []string) {
			if command == "INFO" {
				asked <- i
			}
		})
		ctx, leave := context.WithCancel(t.Context())
		first := kit.Later(func() error { _, err := c.Inspect(ctx); return err })
		synctest.Wait()
		var others []<-chan lockpipe.Inspection
		for range 50 {
			others = append(others, kit.Later(func() lockpipe.Inspection {
				all,
					_ := c.Inspect(t.Context())
				return all
			}))
		}
		synctest.Wait()
		began := time.Now()
		leave()
		require.ErrorIs(t, <-first, context.Canceled)
		require.Zero(t, time.Since(began), "who leaves does not wait")
		for _, other := range others {
			require.Len(t, <-other, 7)
		}
		require.Len(t, asked, 3)
		_, err := c.Inspect(t.Context())
		require.NoError(t, err)
		require.Len(t, asked, 6)
	})
}

// The goal: Close ends an inspection that is under way, even if nodes hang, and leaves nothing of
// it. A closed client inspects nothing.
func TestInspect_CloseEndsIt(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		defer v.Hang(0, "INFO")()
		asking := kit.Later(func() error { _, err := c.Inspect(t.Context()); return err })
		synctest.Wait()
		require.NoError(t, c.Close(t.Context()))
		require.Equal(t, lockpipe.ErrClosed, <-asking)
		began := time.Now()
		_, err := c.Inspect(t.Context())
		require.Equal(t, lockpipe.ErrClosed, err)
		require.Zero(t, time.Since(began))
	})
}

// The goal: a ctx that is over asks nobody.
func TestInspect_AnEndedContextAsksNobody(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 1, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		v.Watch(func(_ int, command string, _ []string) {
			if command == "INFO" {
				t.Error("asked")
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.Inspect(ctx)
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
	})
}

// The goal: an inspection does not disturb callers: nobody waits for it, and it leaves nothing on
// the nodes.
func TestInspect_LeavesLocksAlone(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		held := v.Hold(t, c, "held")
		looking := kit.Later(func() error { _, err := c.Inspect(t.Context()); return err })
		synctest.Wait()
		began := time.Now()
		l := kit.Try(t, c, "free")
		require.NoError(t, l.Release(t.Context()))
		require.Zero(t, time.Since(began))
		require.NoError(t, <-looking)
		kit.Lasting(t, held)
		require.NoError(t, held.Release(t.Context()))
		v.NothingLeft(t)
	})
}
