package multiplex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// diary is a log in which tests count lines.
type diary struct{ warnings, infos atomic.Int32 }

// about counts the lines that contain text.
func (d *diary) about(text string) func(*Config) {
	return func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) {
			switch line := string(p); {
			case !strings.Contains(line, text):
			case strings.Contains(line, "level=WARN"):
				d.warnings.Add(1)
			default:
				d.infos.Add(1)
			}
		}), nil))
	}
}

// The goal: a master that is demoted keeps its clients' connections. The client leaves it at the
// first READONLY, also if it does not read the role of servers, and comes back when it is a master.
func TestFailing_LeavesADemotedMaster(t *testing.T) {
	notShort(t, "a real master that is demoted, and is back")
	t.Parallel()
	for _, mode := range []guard.Mode{guard.Auto, guard.Off} {
		nodes := servertest.Start(t, 1)
		m := start(t, nodes.URLs(), func(c *Config) { waits(3 * time.Second)(c); c.Guard = mode })
		up(t, m)
		require.NoError(t, wait(m.Acquire(claim("k", "t"), 3*time.Second, 1), t.Context()))
		ask(t, nodes, 0, "REPLICAOF", "127.0.0.1", "1")
		require.Equal(t, 1, others(t, nodes, 0), "the server keeps the connection")
		err := wait(m.Acquire(claim("other", "t"), 3*time.Second, 1), t.Context())
		require.ErrorContains(t, err, "READONLY")
		becomes(t, m, 0, link.Down, "READONLY")
		ask(t, nodes, 0, "REPLICAOF", "NO", "ONE")
		if mode == guard.Auto {
			becomes(t, m, 0, link.Quarantined, whyRestarted)
		}
		becomes(t, m, 0, link.Up, "")
		require.NoError(t, wait(m.Acquire(claim("new", "t"), 3*time.Second, 1), t.Context()))
	}
}

// The goal: if an endpoint leads to another server, a client that meets a demoted one dials it
// again.
func TestFailing_DialsTheEndpointOfADemotedMasterAgain(t *testing.T) {
	notShort(t, "the new master behind an endpoint")
	t.Parallel()
	nodes := servertest.Start(t, 2)
	var master atomic.Int32
	m := start(t, []string{"redis://locks.example:6379"}, func(c *Config) {
		waits(3 * time.Second)(c)
		c.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			address := strings.TrimPrefix(nodes.URLs()[master.Load()], "redis://")
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
	})
	up(t, m)
	ask(t, nodes, 0, "REPLICAOF", "127.0.0.1", "1")
	master.Store(1)
	err := wait(m.Acquire(claim("k", "t"), 3*time.Second, 1), t.Context())
	require.ErrorContains(t, err, "READONLY")
	becomes(t, m, 0, link.Quarantined, "")
	becomes(t, m, 0, link.Up, "")
	require.NoError(t, wait(m.Acquire(claim("k", "t"), 3*time.Second, 1), t.Context()))
	require.NotZero(t, others(t, nodes, 1))
	require.Eventually(t, func() bool { return others(t, nodes, 0) == 0 }, patient, often)
}

// The goal: a master without memory is failing: the log says so once, it is no spare, and still
// extends and releases. It is up again when it has memory, also if nobody asks it for a lock.
func TestFailing_AMasterWithoutMemory(t *testing.T) {
	notShort(t, "a real master without memory")
	t.Parallel()
	nodes := servertest.Start(t, 3)
	var log diary
	m := start(t, nodes.URLs(), log.about("node is"))
	up(t, m)
	require.Eventually(t, func() bool { return log.infos.Load() == 3 }, patient, often)
	held := claim("held", "t")
	require.NoError(t, wait(m.Acquire(held, time.Minute, 1), t.Context()))
	require.Eventually(t, func() bool { return ask(t, nodes, 0, "GET", "held") == "tA" }, patient,
		often)
	require.Equal(t, 1, m.SpareNodes())

	ask(t, nodes, 0, "CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1")
	traffic(t, m, func() bool { return m.Nodes()[0].State == link.Failing })
	status := becomes(t, m, 0, link.Failing, "OOM")
	require.Zero(t, m.SpareNodes())
	require.True(t, m.QuorumReachable())
	require.Equal(t, uint64(1), status.Counts.Connects.Load())
	require.Zero(t, status.Counts.Disconnects.Load())
	begin := time.Now()
	traffic(t, m, func() bool { return time.Since(begin) > 2*time.Second })
	require.Equal(t, int32(1), log.warnings.Load())

	require.NoError(t, wait(m.Extend(held, 2*time.Minute, time.Now().Add(time.Minute), 0, 1),
		t.Context()))
	require.Eventually(t, func() bool { return ask(t, nodes, 0, "PTTL", "held").(int64) > 60_000 },
		patient, often)
	require.NoError(t, wait(m.Release(held, 1), t.Context()))
	require.Eventually(t, func() bool { return ask(t, nodes, 0, "GET", "held") == nil }, patient,
		often)
	require.Equal(t, link.Failing, m.Nodes()[0].State, "an extension and a release are no grants")

	ask(t, nodes, 0, "CONFIG", "SET", "maxmemory", "0")
	becomes(t, m, 0, link.Up, "")
	require.Equal(t, 1, m.SpareNodes())
	require.Equal(t, uint64(1), m.Nodes()[0].Counts.Connects.Load())
	require.Eventually(t, func() bool { return log.infos.Load() == 4 }, patient, often)
	require.Equal(t, int32(1), log.warnings.Load())
}

// traffic takes and releases some locks a second until this is so.
func traffic(t *testing.T, m *Mux, done func() bool) {
	t.Helper()
	n := 0
	require.Eventually(t, func() bool {
		n++
		c := claim(fmt.Sprint("traffic", n), "t")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		require.NoError(t, wait(m.Release(c, 1), t.Context()))
		return done()
	}, patient, 20*time.Millisecond)
}

// attempts makes an attempt every 100 ms for d, and returns the last error.
func attempts(t *testing.T, m *Mux, d time.Duration) (err error) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		err = wait(m.Acquire(claim(fmt.Sprint("k", time.Now()), "t"), time.Minute, 1), t.Context())
	}
	return err
}

// misconf is what a master answers whose last snapshot failed.
const misconf = "-MISCONF Redis is configured to save RDB snapshots\r\n"

// refusesAll is a server that refuses locks and probes with an error.
func refusesAll(text string) map[string]string {
	return map[string]string{"SET": text, "EVALSHA": text, "EVALSHA " + ids.ProbeKey: text}
}

// The goal: what a node answers for less than a second says nothing. Then it is failing, its votes
// are unknown as before, and it is up again at the first grant, or at a probe within a second.
func TestFailing_AfterASecondOfErrors(t *testing.T) {
	var log diary
	onStage(t, 3, func(t *testing.T, m *Mux, actors []*actor) {
		node := func() NodeStatus { return m.Nodes()[0] }
		actors[0].play(refusesAll(misconf))
		require.NoError(t, attempts(t, m, 900*time.Millisecond))
		require.Equal(t, link.Up, node().State)
		actors[0].play(nil)
		require.NoError(t, attempts(t, m, 100*time.Millisecond))
		actors[0].play(refusesAll(misconf))
		require.NoError(t, attempts(t, m, 900*time.Millisecond))
		require.Equal(t, link.Up, node().State, "the second begins behind the last grant")
		require.NoError(t, attempts(t, m, 200*time.Millisecond))
		require.Equal(t, link.Failing, node().State)
		require.ErrorContains(t, node().Err, "MISCONF")
		require.Zero(t, node().Until)
		require.Zero(t, m.SpareNodes())
		require.Equal(t, int32(1), log.warnings.Load())
		require.NotZero(t, arbiterOf(m, "a", 0))
		require.NotZero(t, arbiterOf(m, "a", 1))

		actors[1].play(refusesAll(misconf))
		var e *outcomeError
		require.ErrorAs(t, attempts(t, m, 3*time.Second), &e)
		require.GreaterOrEqual(t, e.Unknown, 2, "the third need not have answered when that was "+
			"certain")
		require.Negative(t, m.SpareNodes())
		require.True(t, m.QuorumReachable())

		actors[0].play(nil)
		require.NoError(t, attempts(t, m, 100*time.Millisecond))
		require.Equal(t, link.Up, node().State, "a grant ends it")
		actors[1].play(nil)
		time.Sleep(time.Second)
		require.Equal(t, link.Up, m.Nodes()[1].State, "a probe ends it")
		require.Equal(t, int32(2), log.warnings.Load())
	}, log.about("node is failing"))
}

// The goal: the probe alone finds a node that is asked once, and refuses.
func TestFailing_ANodeThatIsHardlyAskedFailsToo(t *testing.T) {
	t.Parallel()
	onStage(t, 3, func(t *testing.T, m *Mux, actors []*actor) {
		actors[0].play(refusesAll(misconf))
		require.NoError(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))
		time.Sleep(time.Second - time.Millisecond) // as long as errors say nothing
		require.Equal(t, link.Up, m.Nodes()[0].State)
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, link.Failing, m.Nodes()[0].State)
		actors[0].cut() // a new connection has not refused anything
		time.Sleep(link.MaxReconnectDelay)
		require.Equal(t, link.Up, m.Nodes()[0].State)
		time.Sleep(time.Hour)
		require.Equal(t, link.Up, m.Nodes()[0].State)
	})
}

// The goal: a failing node that is demoted is left, also if nobody asks it for a lock.
func TestFailing_NoticesADemotion(t *testing.T) {
	onStage(t, 3, func(t *testing.T, m *Mux, actors []*actor) {
		actors[0].play(refusesAll(misconf))
		require.NoError(t, attempts(t, m, 2*time.Second))
		require.Equal(t, link.Failing, m.Nodes()[0].State)
		actors[0].play(refusesAll("-READONLY You can't write against a read only replica.\r\n"))
		time.Sleep(2 * time.Second)
		require.Equal(t, link.Down, m.Nodes()[0].State)
		require.ErrorContains(t, m.Nodes()[0].Err, "READONLY")
	})
}

// The goal: a vote that comes behind READONLY on a connection does not count. The server may be a
// master again by then, with the keys of another one.
func TestFailing_NoVoteCountsBehindADemotion(t *testing.T) {
	onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
		n, gate := m.nodes[0], make(chan struct{})
		actors[0].play(map[string]string{"SET": "-READONLY no\r\n"})
		actors[0].hear(func(command string) {
			if command == "SET" {
				<-gate
			}
		})
		answers := make([][]node.Answer, 2)
		var flushes sync.WaitGroup
		for i, k := range []node.Kind{node.Acquire, node.Extend} {
			a := m.newAttempt(claim("k", "t"), k, time.Minute, time.Second, time.Minute)
			a.claim.latest = a
			flushes.Go(func() { answers[i] = flushed(n, a) })
			synctest.Wait() // it is in the line
		}
		close(gate)
		flushes.Wait()
		require.True(t, answers[0][0].Replied)
		require.ErrorContains(t, answers[0][0].Err, "READONLY no")
		require.True(t, answers[1][0].Broken, "the server granted it")
		require.Equal(t, node.Unknown, answers[1][0].Vote)
		require.ErrorContains(t, answers[1][0].Err, "READONLY no")
	})
}

// The goal: no vote counts on a connection that is dropped, before it is closed too.
func TestFailing_ADroppedConnectionIsNotValid(t *testing.T) {
	onStage(t, 1, func(t *testing.T, m *Mux, _ []*actor) {
		l := m.nodes[0].Link
		conn := l.Verified()
		require.True(t, l.StillValid(conn))
		conn.Drop(errors.New("READONLY no"))
		require.False(t, l.StillValid(conn))
	})
}

// The goal: a server that said READONLY was a replica, also if it is a master again at the next
// handshake.
func TestFailing_NoticesADemotionThatTheHandshakeDoesNotSee(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	var shut atomic.Bool
	m := start(t, nodes.URLs(), outOfReach(func(_ string) bool {
		return shut.Load()
	}))
	up(t, m)
	ask(t, nodes, 0, "REPLICAOF", "127.0.0.1", "1")
	shut.Store(true)
	require.ErrorContains(t, wait(m.Acquire(claim("k", "t"), time.Second, 1), t.Context()),
		"READONLY")
	becomes(t, m, 0, link.Down, "out of reach")
	ask(t, nodes, 0, "REPLICAOF", "NO", "ONE")
	shut.Store(false)
	becomes(t, m, 0, link.Quarantined, whyRestarted)
}

// The goal: a caller whose keys are forbidden does not make a node fail, also if nobody else asks
// for locks; with commands that are forbidden for all the node is down.
func TestFailing_OneCallersForbiddenKeysAreNoFailure(t *testing.T) {
	const key = "-NOPERM this user has no permissions to access one of the keys used as " +
		"arguments\r\n"
	const command = "-NOPERM this user has no permissions to run the 'set' command\r\n"
	var log diary
	onStage(t, 3, func(t *testing.T, m *Mux, actors []*actor) {
		actors[0].play(map[string]string{"SET": key})
		require.NoError(t, attempts(t, m, 10*time.Second))
		require.Equal(t, link.Up, m.Nodes()[0].State)
		require.Zero(t, log.warnings.Load())
		actors[0].play(refusesAll(command))
		require.NoError(t, attempts(t, m, 3*time.Second))
		require.Equal(t, link.Down, m.Nodes()[0].State)
		require.ErrorContains(t, m.Nodes()[0].Err, "its user may not use EVALSHA: NOPERM")
		require.Equal(t, int32(1), log.warnings.Load())
	}, log.about("connection to node lost"))
}

// The goal: if a server lost its scripts, the probe loads its own.
func TestFailing_TheProbeLoadsItsScript(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	for range 2 {
		ask(t, nodes, 0, "SCRIPT", "FLUSH")
		refusal, answered := m.nodes[0].Link.Probe(t.Context())
		require.True(t, answered)
		require.NoError(t, refusal)
	}
	keys, err := nodes.Keys(0, ids.ProbeKey)
	require.NoError(t, err)
	require.Empty(t, keys)
}

// The goal: while a demoted master stays behind an endpoint, the log says so once, the node is
// dialled with growing delays, and what was on its way says why it failed.
func TestFailing_ADroppedNodeIsProbedBeforeItIsUp(t *testing.T) {
	var log diary
	var dials atomic.Int32
	onStage(t, 3, func(t *testing.T, m *Mux, actors []*actor) {
		dials.Store(0)
		actors[0].hear(func(command string) {
			if command == "PTTL "+ids.AdmittedKey {
				dials.Add(1)
			}
		})
		actors[0].play(refusesAll("-READONLY You can't write against a read only replica.\r\n"))
		actors[1].play(refusesAll(misconf))
		for range 100 {
			o := m.Acquire(claim("k", "t"), time.Minute, 1).Wait(t.Context())
			require.NotEmpty(t, o.NoVotes)
			require.ErrorContains(t, o.NoVotes[0].Err, "READONLY")
			time.Sleep(100 * time.Millisecond)
		}
		status := m.Nodes()[0]
		require.Equal(t, link.Down, status.State)
		require.ErrorContains(t, status.Err, "READONLY")
		require.Equal(t, uint64(1), status.Counts.Disconnects.Load())
		require.Equal(t, int32(1), log.warnings.Load())
		require.LessOrEqual(t, int(dials.Load()), 50)
		actors[0].play(nil)
		time.Sleep(link.MaxReconnectDelay)
		require.Equal(t, link.Up, m.Nodes()[0].State)
	}, log.about("node is down"))
}
