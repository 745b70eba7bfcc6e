package multiplex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Less than the MaxTTL of a minute that clients have here, where a test does not say otherwise.
const patient = 20 * time.Second

// becomes waits until node i is in this state, and its error says so; "" for none.
func becomes(t *testing.T, m *Mux, i int, s NodeState, says string) NodeStatus {
	t.Helper()
	var last NodeStatus
	met := func() bool {
		last = m.Nodes()[i]
		return last.State == s && (says == "" || strings.Contains(last.Err.Error(), says))
	}
	if !assert.Eventually(t, met, patient, time.Millisecond) {
		require.FailNow(t, "another state", "node %d is not %v with %q, but %v with %v", i, s, says,
			last.State, last.Err)
	}
	if s == NodeQuarantined {
		require.False(t, last.Until.IsZero())
	} else {
		require.Zero(t, last.Until)
	}
	return last
}

// ask sends one command to node i, and wants no error.
func ask(t *testing.T, nodes *lockpipetest.Nodes, i int, args ...string) any {
	t.Helper()
	got, err := nodes.Do(i, args...)
	require.NoError(t, err)
	return got
}

// runID is that of the server of node i now.
func runID(t *testing.T, nodes *lockpipetest.Nodes, i int) string {
	t.Helper()
	return resp.ParseInfo(ask(t, nodes, i, "INFO", "server").(string))["run_id"]
}

// sets is how many SET commands the server of node i has executed.
func sets(t *testing.T, nodes *lockpipetest.Nodes, i int) string {
	t.Helper()
	return resp.ParseInfo(ask(t, nodes, i, "INFO", "commandstats").(string))["cmdstat_set"]
}

func mode(g GuardMode) func(*Config) { return func(c *Config) { c.Guard = g } }

// waits lets a quarantine last for so long: several seconds, or a test on a busy machine could look
// when it is over already.
func waits(d time.Duration) func(*Config) { return func(c *Config) { c.MaxTTL, c.TTL = d, d } }

// The goal: masters that are used for the first time vote at once, and have the marker; also when
// several clients come at the same moment, and for a client that comes later.
func TestTheFirstUseIsAtOnceForAllClients(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	for round := range 10 {
		prefix := fmt.Sprint(round, ":")
		var clients sync.WaitGroup
		for range 6 {
			clients.Go(func() {
				m := start(t, nodes.URLs(), func(c *Config) { c.Prefix = prefix })
				c := claim(prefix+fmt.Sprintf("%p", m), "t")
				if err := wait(m.Acquire(c, time.Minute, 1), context.Background()); err != nil {
					// The first call works.
					t.Error(err)
				}
			})
		}
		clients.Wait()
		late := start(t, nodes.URLs(), func(c *Config) { c.Prefix = prefix })
		for i := range nodes.Len() {
			becomes(t, late, i, NodeUp, "")
			require.Equal(t, runID(t, nodes, i), ask(t, nodes, i, "GET", prefix+
				"lockpipe:admitted"))
			require.EqualValues(t, -1, ask(t, nodes, i, "PTTL", prefix+"lockpipe:admitted"))
		}
	}
}

// The goal: while one node is missing there is no first use, since it may be the one that knows
// better. When it comes, all of them vote at once.
func TestTheFirstUseWaitsForTheLastNode(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	require.NoError(t, nodes.Kill(2))
	m := start(t, nodes.URLs(), nil)
	waitsFor := "first use? no node has a marker yet, and " + m.nodes[2].addr + " is down"
	becomes(t, m, 0, NodeQuarantined, waitsFor)
	status := becomes(t, m, 1, NodeQuarantined, waitsFor)
	require.InDelta(t, time.Minute, time.Until(status.Until), float64(10*time.Second))
	require.False(t, m.Reachable())
	require.Equal(t, -1, m.Judge("k", 0))
	err := wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context())
	require.ErrorIs(t, err, ErrNoQuorum)
	require.ErrorContains(t, err, "quarantined until "+status.Until.Format(time.RFC3339)+": "+
		waitsFor)
	require.Equal(t, []any{markerKey}, ask(t, nodes, 0, "KEYS", "*"),
		"no lock reached a quarantined node")
	require.NoError(t, nodes.Restart(2))
	up(t, m)
	require.NoError(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))
}

// The goal: nodes that an earlier client saw long ago, while another one was missing, do not keep
// that one from the first use.
func TestTheFirstUseIsAtOnceAlsoBehindOldMarks(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	for i := range 2 {
		f := resp.ParseInfo(ask(t, nodes, i, "INFO", "replication").(string))
		m := mark{newPrefix, 11 * time.Minute, runID(t, nodes, i) + "." + f["master_replid"], ""}
		ask(t, nodes, i, "SET", markerKey, m.text(), "PX", "540000") // two minutes old
	}
	m := start(t, nodes.URLs(), nil)
	up(t, m)
}

// The goal: one node with a marker shows that the others have lost theirs: no first use.
func TestOneMarkerIsNoFirstUse(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	ask(t, nodes, 1, "SET", markerKey, runID(t, nodes, 1))
	m := start(t, nodes.URLs(), nil)
	becomes(t, m, 1, NodeUp, "")
	becomes(t, m, 0, NodeQuarantined, "")
	becomes(t, m, 2, NodeQuarantined, "")
	require.Contains(t, ask(t, nodes, 0, "GET", markerKey), newPrefix,
		"it may be another client's first use, whose markers are on their way")

	ask(t, nodes, 1, "SET", markerKey, "another")
	m = start(t, nodes.URLs(), nil)
	becomes(t, m, 1, NodeQuarantined, "")
	require.False(t, m.first.possible(), "also when that marker is gone later")
}

// The goal: a client whose nodes came up by waiting has admitted them as well: when they restart
// together, that is no first use.
func TestAfterWaitingThereIsNoFirstUse(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 2)
	require.NoError(t, nodes.Kill(1))
	m := start(t, nodes.URLs(), waits(4*time.Second))
	becomes(t, m, 0, NodeQuarantined, "")
	becomes(t, m, 0, NodeUp, "")
	require.False(t, m.first.possible())
}

// The goal: a client that had admitted the nodes knows that they lost everything together, though
// they look as before their first use; and it votes again with them after the longest TTL, not
// before.
func TestAllNodesThatRestartTogetherWait(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	m := start(t, nodes.URLs(), waits(6*time.Second))
	up(t, m)
	var restarted time.Time
	for i := range nodes.Len() {
		require.NoError(t, nodes.Kill(i))
	}
	for i := range nodes.Len() {
		restarted = time.Now()
		require.NoError(t, nodes.Restart(i))
	}
	for i := range nodes.Len() {
		becomes(t, m, i, NodeQuarantined, whyRestarted)
	}
	for i := range nodes.Len() {
		becomes(t, m, i, NodeUp, "")
		require.Equal(t, runID(t, nodes, i), ask(t, nodes, i, "GET", markerKey))
	}
	require.GreaterOrEqual(t, time.Since(restarted), 6*time.Second)
}

// The goal: a client that knows of the loss keeps one that knows nothing from taking it for the
// first use, until the quarantine is over.
func TestWhoKnowsOfALossKeepsOthersFromTheFirstUse(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	knowing := start(t, nodes.URLs(), waits(5*time.Second))
	up(t, knowing)
	for i := range nodes.Len() {
		require.NoError(t, nodes.Kill(i))
	}
	restarted := time.Now()
	for i := range nodes.Len() {
		require.NoError(t, nodes.Restart(i))
		becomes(t, knowing, i, NodeQuarantined, whyRestarted)
		require.Regexp(t, "^lost:", ask(t, nodes, i, "GET", markerKey))
	}
	late := start(t, nodes.URLs(), nil) // it would wait for a minute by itself
	for i := range nodes.Len() {
		becomes(t, late, i, NodeQuarantined, whyUnmarked)
	}
	up(t, knowing)
	up(t, late)
	require.GreaterOrEqual(t, time.Since(restarted), 5*time.Second)
}

// The goal: a wait that began while it could be the first use lasts no longer when the wait of
// another node has ended that.
func TestAWaitIsNotBegunAnew(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	require.NoError(t, nodes.Kill(2))
	m := start(t, nodes.URLs(), waits(5*time.Second))
	until := []time.Time{becomes(t, m, 0, NodeQuarantined, "").Until, becomes(t, m, 1,
		NodeQuarantined, "").Until}
	require.Eventually(t, func() bool {
		up := 0
		for i, before := range until {
			switch s := m.Nodes()[i]; s.State {
			case NodeUp:
				up++
			case NodeQuarantined:
				require.Equal(t, before, s.Until)
			}
		}
		return up == 2
	}, patient, time.Millisecond)
}

// settles reports whether a client writes a marker that is no mark: it does not expire.
func settles(p []byte) bool {
	r := resptest.NewReader(bytes.NewReader(p))
	for {
		w, err := resptest.ReadCommand(r)
		if err != nil {
			return false
		}
		if len(w) == 9 && w[1] == script.WriteMarker.SHA && w[7] == "" &&
			!strings.Contains(w[3], noneKey) {
			return true
		}
	}
}

// The goal: the marker is written only where it still is what was seen: another client may have
// admitted the server meanwhile, and it may have been flushed again.
func TestAMarkerThatHasChangedIsNotOverwritten(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 1)
	knowing := start(t, nodes.URLs(), waits(4*time.Second))
	up(t, knowing)
	require.NoError(t, knowing.Close(t.Context()))
	ask(t, nodes, 0, "SET", markerKey, lostPrefix+"1")
	var once sync.Once
	m := start(t, nodes.URLs(), func(c *Config) {
		waits(4 * time.Second)(c)
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &spy{Conn: conn, wrote: func(p []byte) {
				if settles(p) {
					once.Do(func() { _, _ = nodes.Do(0, "SET", markerKey, lostPrefix+"2") })
				}
			}}, err
		}
	})
	begin := becomes(t, m, 0, NodeQuarantined, "").Until
	later := begin
	require.Eventually(t, func() bool {
		s := m.Nodes()[0]
		if s.State == NodeQuarantined {
			later = s.Until
		}
		return s.State == NodeUp
	}, patient, time.Millisecond)
	require.True(t, later.After(begin), "it waits for the second loss as well")
}

// The goal: the handshake touches no key that somebody may have.
func TestTheHandshakeDeletesNothing(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	ask(t, nodes, 0, "SET", noneKey, "held")
	ask(t, nodes, 0, "SET", strings.TrimSuffix(noneKey, ":"), "held")
	up(t, start(t, nodes.URLs(), nil))
	require.EqualValues(t, 2, ask(t, nodes, 0, "EXISTS", noneKey, strings.TrimSuffix(noneKey, ":")))
}

// The goal: one that found no marker anywhere, and then one that says so, makes no first use of
// what it saw before.
func TestALossThatIsMarkedWhileOthersWaitForTheFirstUseEndsIt(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	var once sync.Once
	m := start(t, nodes.URLs(), func(c *Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &spy{Conn: conn, wrote: func(p []byte) {
				if settles(p) { // the end of the first use
					once.Do(func() {
						for i := range nodes.Len() {
							_, _ = nodes.Do(i, "SET", markerKey, lostPrefix+"1")
						}
					})
				}
			}}, err
		}
	})
	for i := range nodes.Len() {
		becomes(t, m, i, NodeQuarantined, whyUnmarked)
	}
}

// The goal: a client that keeps looking sees that another has lifted the quarantine, or an
// operator.
func TestAnotherClientLiftsTheQuarantine(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	first := start(t, nodes.URLs(), nil)
	up(t, first)
	require.NoError(t, nodes.Restart(0))
	becomes(t, first, 0, NodeQuarantined, whyRestarted)
	second := start(t, nodes.URLs(), mode(GuardStrict))
	becomes(t, second, 0, NodeQuarantined, whyUnmarked)
	ask(t, nodes, 0, "SET", markerKey, runID(t, nodes, 0))
	becomes(t, first, 0, NodeUp, "")
	becomes(t, second, 0, NodeUp, "")
}

// The goal: what a quarantined node is owed is dropped when its keys have expired, as for a node
// that is down.
func TestAQuarantinedNodeIsOwedItsReleasesOnlyUntilTheyHaveExpired(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	c := claim("k", "t")
	require.NoError(t, wait(m.Acquire(c, time.Second, 1), t.Context()))
	require.NoError(t, nodes.Restart(0))
	becomes(t, m, 0, NodeQuarantined, "")
	release := m.Release(c, 1)
	require.ErrorIs(t, wait(release, t.Context()), ErrNoQuorum)
	require.Equal(t, 1, m.Nodes()[0].PendingReleases)
	require.Eventually(t, func() bool { return release.Wait(t.Context(), time.Now()) == nil },
		patient, time.Millisecond)
	require.EqualValues(t, 1, m.Nodes()[0].DroppedReleases)
	require.Equal(t, NodeQuarantined, m.Nodes()[0].State)
	require.Equal(t, []any{markerKey}, ask(t, nodes, 0, "KEYS", "*"),
		"a lock command reached a quarantined node")
}

// The goal: a flush that the server tells of quarantines the node at once; and what it answers
// behind the flush, in the same breath, is no vote. The server stands still until it has both to
// read.
func TestAFlushedNodeDoesNotVote(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	for range 5 {
		m := start(t, nodes.URLs(), nil)
		up(t, m)
		flusher, err := net.Dial("tcp", strings.TrimPrefix(nodes.URLs()[0], "redis://"))
		require.NoError(t, err)
		_, err = flusher.Write([]byte("PING\r\n"))
		require.NoError(t, err)
		_, err = flusher.Read(make([]byte, 7))
		require.NoError(t, err)

		require.NoError(t, nodes.Freeze(0))
		_, err = flusher.Write([]byte("FLUSHALL\r\n"))
		require.NoError(t, err)
		a := m.Acquire(claim("k", "t"), time.Minute, 1)
		require.Eventually(t, func() bool { return m.Stats().Flushes > 0 }, patient,
			time.Millisecond)
		// Mostly enough for the acquire to be there as well; else it is not sent any more.
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, nodes.Thaw(0))
		err = wait(a, t.Context())
		becomes(t, m, 0, NodeQuarantined, whyFlushed)
		if ask(t, nodes, 0, "GET", "k") == nil {
			t.Log("the acquire came before the flush, or not at all")
		} else {
			require.ErrorIs(t, err, ErrNoQuorum)
		}
		require.NoError(t, flusher.Close())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_ = m.Close(ctx)
		cancel()
		ask(t, nodes, 0, "DEL", "k", markerKey) // the next round is a first use
	}
}

// The goal: the flush of another database costs a connection and nothing else; the marker is in the
// client's own database.
func TestAFlushOfAnotherDatabaseIsForgiven(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	var quarantined atomic.Bool
	m := start(t, []string{nodes.URLs()[0] + "/1"}, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) {
			if bytes.Contains(p, []byte("quarantined")) {
				quarantined.Store(true)
			}
		}), nil))
	})
	for range 5 {
		up(t, m)
		before := m.nodes[0].line.Load()
		ask(t, nodes, 0, "FLUSHDB")
		require.Eventually(t, func() bool { return m.nodes[0].line.Load() != before }, patient,
			time.Millisecond, "not noticed")
	}
	up(t, m)
	require.False(t, quarantined.Load())
	require.NoError(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// spy is a connection that tells of what is written, and can leave the server alone with it.
type spy struct {
	net.Conn
	wrote func([]byte)
	leave bool // Close ends the client's half only
}

func (s *spy) Write(p []byte) (int, error) { s.wrote(p); return s.Conn.Write(p) }

func (s *spy) Close() error {
	if s.leave {
		return s.SetDeadline(time.Unix(1, 0))
	}
	return s.Conn.Close()
}

// The goal: a flush after the guard has found the marker and before the server would tell of it is
// noticed all the same.
func TestAFlushBetweenTheHandshakeAndTheFirstCommandIsNoticed(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	first := start(t, nodes.URLs(), nil)
	up(t, first)
	var once sync.Once
	m := start(t, nodes.URLs(), func(c *Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &spy{Conn: conn, wrote: func(p []byte) {
				if bytes.Contains(p, []byte("HELLO")) {
					once.Do(func() { _ = nodes.Flush(0) })
				}
			}}, err
		}
	})
	becomes(t, m, 0, NodeQuarantined, whyFlushed)
	becomes(t, first, 0, NodeQuarantined, whyFlushed)
}

// The goal: the guard ends the connection that the node had before, which the server may not have
// read to its end.
func TestTheFormerConnectionIsEnded(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	var left []net.Conn
	m := start(t, nodes.URLs(), func(c *Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			left = append(left, conn) // by the keeper alone
			return &spy{Conn: conn, wrote: func([]byte) {}, leave: true}, err
		}
	})
	up(t, m)
	line := m.nodes[0].line.Load()
	require.NoError(t, line.Close())
	require.Eventually(t, func() bool { return m.nodes[0].line.Load() != line }, patient,
		time.Millisecond)
	up(t, m)
	require.Equal(t, 1, others(t, nodes, 0))
	require.NoError(t, m.Close(t.Context()))
	for _, conn := range left {
		_ = conn.Close()
	}
}

// The goal: a node whose marker can't be read or written is down with the server's own words, and
// never with the password.
func TestWhatTheGuardIsDeniedIsToldWithTheServersWords(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	address := strings.TrimPrefix(nodes.URLs()[0], "redis://")
	for name, test := range map[string]struct{ rules, url, says string }{
		"no write":       {"on >pw ~* +@all -set", "u:pw@", "can't be written: "},
		"no read":        {"on >pw ~* +@all -get", "u:pw@", "can't be read: NOPERM"},
		"no scripts":     {"on >pw ~* +@all -evalsha", "u:pw@", "NOPERM"},
		"no MGET":        {"on >pw ~* +@all -mget", "u:pw@", "can't run this command"},
		"no DEL":         {"on >pw ~* +@all -del", "u:pw@", "NOPERM"},
		"not all keys":   {"on >pw ~k* +@all", "u:pw@", "can't be read: NOPERM"},
		"no INFO":        {"on >pw ~* +@all -info", "u:pw@", "NOPERM"},
		"wrong password": {"on >pw ~* +@all", "u:secret@", "WRONGPASS"},
		"unknown user":   {"on >pw ~* +@all", "v:secret@", "WRONGPASS"},
	} {
		t.Run(name, func(t *testing.T) {
			ask(t, nodes, 0, "CONFIG", "RESETSTAT")
			ask(t, nodes, 0, append([]string{"ACL", "SETUSER", "u", "reset"},
				strings.Fields(test.rules)...)...)
			m := start(t, []string{"redis://" + test.url + address}, nil)
			s := becomes(t, m, 0, NodeDown, test.says)
			require.NotContains(t, s.Err.Error(), "secret")
			require.ErrorContains(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()),
				test.says)
			if executed := sets(t, nodes, 0); executed != "" {
				require.Contains(t, executed, "calls=0,")
			}
		})
	}
}

// The goal: a user who may do no more than the guard needs is admitted, also after the connection
// was lost.
func TestTheGuardNeedsFewPermissions(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	ask(t, nodes, 0, "ACL", "SETUSER", "u", "on", ">pw", "~*", "+hello", "+auth", "+ping", "+get",
		"+set", "+evalsha", "+info", "+del", "+mget", "+script|load")
	m := start(t, []string{"redis://u:pw@" + strings.TrimPrefix(nodes.URLs()[0], "redis://")}, nil)
	for range 3 {
		up(t, m)
		c := claim("k", "t")
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		require.NoError(t, wait(m.Release(c, 1), t.Context()))
		line := m.nodes[0].line.Load()
		require.NoError(t, line.Close())
		require.Eventually(t, func() bool { return m.nodes[0].line.Load() != line }, patient,
			time.Millisecond)
	}
}

// The goal: a password that the server does not want is not held against it.
func TestAPasswordThatIsNotWantedIsForgiven(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	m := start(t, []string{strings.Replace(nodes.URLs()[0], "redis://", "redis://:pw@", 1)}, nil)
	up(t, m)
	ask(t, nodes, 0, "CONFIG", "SET", "requirepass", "another")
	require.NoError(t, m.nodes[0].line.Load().Close())
	becomes(t, m, 0, NodeDown, "WRONGPASS")
}

// The goal: a replica is no master, and says so; when it is promoted it has to wait, since
// replication may have missed locks.
func TestAReplicaDoesNotVote(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 2)
	master := start(t, nodes.URLs()[:1], nil)
	up(t, master)
	ask(t, nodes, 1, append([]string{"REPLICAOF"}, strings.Split(strings.TrimPrefix(nodes.URLs()[0],
		"redis://"), ":")...)...)
	require.Eventually(t, func() bool {
		return ask(t, nodes, 1, "GET", markerKey) == runID(t, nodes,
			0)
	}, patient, time.Millisecond)
	m := start(t, nodes.URLs()[1:], nil)
	becomes(t, m, 0, NodeDown, "READONLY: it is a replica")
	ask(t, nodes, 1, "REPLICAOF", "NO", "ONE")
	becomes(t, m, 0, NodeQuarantined, "")
}

// The goal: who connects while a script keeps the server busy is told of changes and flushes all
// the same, later.
func TestABusyServerIsAskedAgain(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	ask(t, nodes, 0, "CONFIG", "SET", "busy-reply-threshold", "1")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = nodes.Do(0, "EVAL", "while true do end", "0")
	}()
	require.Eventually(t, func() bool {
		_, err := nodes.Do(0, "GET", "k")
		return err != nil && strings.Contains(err.Error(), "BUSY")
	}, patient, time.Millisecond)
	m := start(t, nodes.URLs(), mode(GuardOff))
	becomes(t, m, 0, NodeDown, "BUSY")
	ask(t, nodes, 0, "SCRIPT", "KILL")
	<-done
	up(t, m)
	require.Regexp(t, "flags=[a-zA-Z]*t", ask(t, nodes, 0, "CLIENT", "LIST"))
}

// The goal: GuardStrict also waits before the first use, and admits no server that has no run_id;
// GuardAuto does that with one warning, and GuardOff leaves no marker.
func TestTheModes(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 1)
	begin := time.Now()
	strict := start(t, nodes.URLs(), func(c *Config) {
		c.Guard, c.MaxTTL = GuardStrict,
			4*time.Second
	})
	becomes(t, strict, 0, NodeQuarantined, whyUnmarked)
	becomes(t, strict, 0, NodeUp, "")
	require.GreaterOrEqual(t, time.Since(begin), 4*time.Second)
	require.NoError(t, strict.Close(t.Context()))
	ask(t, nodes, 0, "DEL", markerKey)
	off := start(t, nodes.URLs(), mode(GuardOff))
	up(t, off)
	require.Nil(t, ask(t, nodes, 0, "GET", markerKey))

	simple, err := lockpipetest.StartInProcess(3)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, simple.Close()) })
	becomes(t, start(t, simple.URLs(), mode(GuardStrict)), 0, NodeDown,
		"GuardStrict admits no such server")
	var warnings atomic.Int32
	auto := start(t, simple.URLs(), func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) {
			if bytes.Contains(p, []byte("has no restart guard")) {
				warnings.Add(1)
			}
		}), nil))
	})
	up(t, auto)
	line := auto.nodes[0].line.Load()
	require.NoError(t, line.Close())
	require.Eventually(t, func() bool { return auto.nodes[0].line.Load() != line }, patient,
		time.Millisecond)
	up(t, auto)
	require.EqualValues(t, 3, warnings.Load(), "one for each node")
}

// The goal: a server that sends anything but Redis fails its own node, with few words, and nothing
// else.
func TestAHostileServerFailsOnlyItsNode(t *testing.T) {
	good := lockpipetest.StartRealT(t, 2)
	for i := range good.Len() {
		ask(t, good, i, "SET", markerKey, runID(t, good, i))
	}
	for name, text := range map[string]string{
		"another protocol": "HTTP/1.1 400 Bad Request\r\n\r\n",
		"endless":          "+" + strings.Repeat("x", 1<<20),
		"huge":             "$999999999\r\n",
		"deep":             strings.Repeat("*1\r\n", 1<<16),
		"too much":         strings.Repeat("+OK\r\n", 1000),
		"turned away":      "-DENIED go away\r\n",
		"nothing":          "",
	} {
		t.Run(name, func(t *testing.T) {
			m := start(t, append([]string{"127.0.0.1:1"}, good.URLs()...), func(c *Config) {
				c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					if address != "127.0.0.1:1" {
						return (&net.Dialer{}).DialContext(ctx, network, address)
					}
					client, server := net.Pipe()
					go func() { // it reads only as much as it must
						defer func() { _ = server.Close() }()
						_, _ = server.Read(make([]byte, 1))
						_, _ = server.Write([]byte(text))
					}()
					return client, nil
				}
			})
			s := becomes(t, m, 0, NodeDown, "")
			require.Less(t, len(s.Err.Error()), 200)
			if name == "turned away" {
				require.ErrorContains(t, s.Err, "DENIED go away")
			}
			require.NoError(t, wait(m.Acquire(claim(name, "t"), time.Minute, 1), t.Context()))
		})
	}
}

// lasting is a redis-server with files, on a socket of its own.
type lasting struct {
	t    *testing.T
	dir  string
	args []string
	cmd  *exec.Cmd
}

// shortDir is for sockets: their names must be shorter than those in t.TempDir.
func shortDir() (string, error) { return os.MkdirTemp("", "lockpipe") }

func startLasting(t *testing.T, args ...string) *lasting {
	t.Helper()
	lockpipetest.RequireRedis(t)
	dir, err := shortDir()
	require.NoError(t, err)
	s := &lasting{t: t, dir: dir, args: args}
	t.Cleanup(func() {
		s.kill()
		require.NoError(t, os.RemoveAll(dir))
	})
	s.start()
	return s
}

// startClusterNode starts a node of a Redis Cluster. Its bus has a port of its own, or all such
// servers want the same one.
func startClusterNode(t *testing.T) *lasting {
	t.Helper()
	free, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(free.Addr().String())
	require.NoError(t, err)
	require.NoError(t, free.Close())
	return startLasting(t, "--cluster-enabled", "yes", "--cluster-port", port)
}

func (s *lasting) socket() string { return filepath.Join(s.dir, "s") }
func (s *lasting) url() []string  { return []string{"unix://" + s.socket()} }

func (s *lasting) start() {
	s.t.Helper()
	s.cmd = exec.Command("redis-server", append([]string{
		"--port", "0", "--unixsocket", s.socket(),
		"--dir", s.dir, "--save", "",
	}, s.args...)...)
	require.NoError(s.t, s.cmd.Start())
	require.Eventually(s.t, func() bool {
		_, err := s.do("PING")
		return err == nil
	}, patient, time.Millisecond)
}

func (s *lasting) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *lasting) do(args ...string) (got resp.Value, err error) {
	conn, err := net.Dial("unix", s.socket())
	if err != nil {
		return got, err
	}
	defer func() { _ = conn.Close() }()
	err = newHandshake(conn).ask([]question{{
		args,
		func(r resp.Value) error { got = r; return r.Err() },
	}})
	return got, err
}

// The goal: a node that kept all locks over its restart votes at once, for this client and for a
// new one, with the keys it had; an append-only file that is behind, or one that is gone, is not
// enough.
func TestADurableNodeVotesAtOnceAfterItsRestart(t *testing.T) {
	s := startLasting(t, "--appendonly", "yes", "--appendfsync", "always")
	m := start(t, s.url(), nil)
	up(t, m)
	require.NoError(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))
	for range 3 {
		before := m.nodes[0].line.Load()
		s.kill()
		s.start()
		require.Eventually(t, func() bool { return m.nodes[0].line.Load() != before }, patient,
			time.Millisecond)
		up(t, m) // sooner than the longest TTL
		require.ErrorIs(t, wait(m.Acquire(claim("k", "t2"), time.Minute, 1), t.Context()), ErrHeld)
	}
	s.kill()
	s.start()
	late := start(t, s.url(), nil)
	up(t, late)
	up(t, m)

	_, err := s.do("CONFIG", "SET", "appendfsync", "everysec")
	require.NoError(t, err)
	s.args = []string{
		"--appendonly", "yes", "--appendfsync", "always",
		"--no-appendfsync-on-rewrite", "yes",
	}
	s.kill()
	s.start()
	becomes(t, m, 0, NodeQuarantined, whyRestarted)
	s.args = []string{"--appendonly", "yes", "--appendfsync", "always"}
	s.kill()
	require.NoError(t, os.RemoveAll(filepath.Join(s.dir, "appendonlydir")))
	require.NoError(t, errors.Join(os.RemoveAll(filepath.Join(s.dir, "appendonly.aof"))))
	s.start()
	becomes(t, m, 0, NodeQuarantined, whyRestarted)
}

// The goal: a server that does not show its run_id after a restart is not admitted like one that
// never had any.
func TestANodeThatHadARunIDKeepsIt(t *testing.T) {
	s := startLasting(t)
	m := start(t, s.url(), nil)
	up(t, m)
	s.kill()
	s.args = []string{"--rename-command", "INFO", ""}
	s.start()
	becomes(t, m, 0, NodeDown, "does not show a run_id any more")
	up(t, start(t, s.url(), nil))
}

// The goal: a snapshot has the marker of the run before and may lack locks: the node is
// quarantined, no longer than until the longest TTL after its start.
func TestANodeThatRestartsFromASnapshotIsQuarantined(t *testing.T) {
	s := startLasting(t)
	m := start(t, s.url(), nil)
	up(t, m)
	_, err := s.do("SAVE")
	require.NoError(t, err)
	s.kill()
	began := time.Now()
	s.start()
	status := becomes(t, m, 0, NodeQuarantined, whyRestarted)
	marker, err := s.do("GET", markerKey)
	require.NoError(t, err)
	require.NotEmpty(t, marker.Text, "the snapshot was not loaded")
	require.False(t, status.Until.Before(began.Add(time.Minute)))
}

// The goal: a quarantine does not end because the server does not show its run_id any more, also
// for a client that never admitted it.
func TestAQuarantinedNodeKeepsItsRunID(t *testing.T) {
	s := startLasting(t)
	_, err := s.do("SET", markerKey, lostPrefix+"x")
	require.NoError(t, err)
	m := start(t, s.url(), nil)
	becomes(t, m, 0, NodeQuarantined, "")
	s.kill()
	s.args = []string{"--rename-command", "INFO", ""}
	s.start()
	becomes(t, m, 0, NodeDown, "does not show a run_id any more")
}

// The goal: a server that restarted from a snapshot, and writes an append-only file only since
// then, has not kept what it knew before: also a client that comes later does not take its start
// for one with a durable memory.
func TestADurableNodeWasDurableAtItsStart(t *testing.T) {
	s := startLasting(t)
	m := start(t, s.url(), nil)
	up(t, m)
	_, err := s.do("SAVE")
	require.NoError(t, err)
	require.NoError(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))
	s.kill()
	s.start()
	becomes(t, m, 0, NodeQuarantined, whyRestarted)
	for _, change := range []string{"CONFIG SET appendonly yes", "CONFIG SET appendfsync always"} {
		_, err := s.do(strings.Fields(change)...)
		require.NoError(t, err)
	}
	late := start(t, s.url(), nil)
	becomes(t, late, 0, NodeQuarantined, "")
	require.ErrorIs(t, wait(late.Acquire(claim("k", "t2"), time.Minute, 1), t.Context()),
		ErrNoQuorum)
	require.Eventually(t, func() bool {
		// The process that writes the first file would outlive the server, and write into a
		// directory that is being removed.
		info, err := s.do("INFO", "persistence")
		state := resp.ParseInfo(info.Text)
		return err == nil && state["aof_rewrite_in_progress"] == "0" &&
			state["aof_rewrite_scheduled"] == "0"
	}, patient, time.Millisecond)
}

// The goal: a master that was a replica for a while has the keys of the other one, and its own
// marker among them, but not the locks that the other one missed. Who saw that waits.
func TestAMasterThatWasAReplicaWaitsInSpiteOfItsMarker(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 2)
	m := start(t, nodes.URLs()[:1], nil)
	up(t, m)
	follow := func(i, of int) {
		ask(t, nodes, i, append([]string{"REPLICAOF"},
			strings.Split(strings.TrimPrefix(nodes.URLs()[of], "redis://"), ":")...)...)
		require.Eventually(t, func() bool {
			return resp.ParseInfo(ask(t, nodes, i, "INFO",
				"replication").(string))["master_link_status"] == "up"
		}, patient, time.Millisecond)
	}
	follow(1, 0)
	// A failover: it takes over, and misses what comes now.
	ask(t, nodes, 1, "REPLICAOF", "NO", "ONE")
	require.NoError(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))
	follow(0, 1)
	becomes(t, m, 0, NodeDown, "READONLY: it is a replica")
	ask(t, nodes, 0, "REPLICAOF", "NO", "ONE")
	require.Equal(t, runID(t, nodes, 0), ask(t, nodes, 0, "GET", markerKey))
	require.Nil(t, ask(t, nodes, 0, "GET", "k"))
	becomes(t, m, 0, NodeQuarantined, whyDemoted)
	require.ErrorIs(t, wait(m.Acquire(claim("k", "t2"), time.Minute, 1), t.Context()), ErrNoQuorum)
}
