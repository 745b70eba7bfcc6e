package multiplex

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// run is a run_id.
func run(digit string) string { return strings.Repeat(digit, 39) + "0" }

// claimed claims a server for a node, and wants that to succeed.
func claimed(t *testing.T, s *servers, runID string, node int) (l *nodeConn, changed bool,
	former string,
) {
	t.Helper()
	l = &nodeConn{}
	at, former, err := s.claim(runID, node, l)
	require.NoError(t, err)
	return l, !at.IsZero(), former
}

// The goal: a server is one node's at a time. A node knows whether its server may have been
// another's, and the number of the Mux's last connection there, whichever node had it.
func TestServers_AreClaimedByOneNode(t *testing.T) {
	s := newServers([]endpoint{{name: "a"}, {name: "b"}})
	a, changed, former := claimed(t, s, run("1"), 0)
	require.True(t, changed, "the first server of a node")
	require.Empty(t, former)
	s.admitted(a, "7")
	_, _, err := s.claim(run("1"), 1, &nodeConn{})
	require.EqualError(t, err, "is the same server as a, and one server has one vote: give each "+
		"node a server of its own")
	b, _, _ := claimed(t, s, run("2"), 1)

	s.close(a)
	a, changed, former = claimed(t, s, run("1"), 0)
	require.True(t, changed, "still since then")
	require.Equal(t, "7", former)
	s.close(a)
	s.close(b)
	b, changed, former = claimed(t, s, run("1"), 1)
	require.True(t, changed)
	require.Equal(t, "7", former, "also where it was not admitted since")
	s.close(b)
	_, changed, _ = claimed(t, s, run("1"), 0)
	require.True(t, changed, "node b had it in between")
}

// The goal: the connection that a claim was replaced by does not end with the old one.
func TestServers_KeepTheNewerClaim(t *testing.T) {
	s := newServers([]endpoint{{name: "a"}, {name: "b"}})
	old, _, _ := claimed(t, s, run("1"), 0)
	_, _, _ = claimed(t, s, run("1"), 0)
	s.close(old)
	_, _, err := s.claim(run("1"), 1, &nodeConn{})
	require.Error(t, err)
}

// The goal: a server without a run_id may be any other, and what is not unique is no run_id.
func TestServers_WithoutARunIDMayBeAnyOther(t *testing.T) {
	for _, none := range []string{
		"", "x", strings.Repeat("0", 40), strings.Repeat("a", 40),
		run("1") + "0", run("G"),
	} {
		s := newServers(make([]endpoint, 3))
		a, _, _ := claimed(t, s, run("1"), 0)
		b, _, _ := claimed(t, s, none, 1)
		c, _, _ := claimed(t, s, run("3"), 2)
		require.Empty(t, s.ready(a))
		require.Equal(t, []int{0}, s.ready(b))
		require.Equal(t, []int{1}, s.ready(c), "the other is known to differ")
		s.close(a)
		require.Empty(t, s.ready(a), "closed meanwhile")
		s.close(b)
		b, _, _ = claimed(t, s, none, 1)
		require.False(t, s.apart(b).IsZero(), "it may be the one that node a had")
		s = newServers(make([]endpoint, 2))
		a, _, _ = claimed(t, s, run("1"), 0)
		b, _, _ = claimed(t, s, none, 1)
		require.Zero(t, s.apart(b), "no other has lost any")
		s.ready(a)
		s.close(a)
		require.False(t, s.apart(b).IsZero(), "another was lost before they were told apart")
	}
}

// The goal: a quarantined server stays its node's between two looks, until that finds another
// server or none.
func TestServers_AreClaimedDuringAQuarantine(t *testing.T) {
	s := newServers(make([]endpoint, 2))
	claim := func(runID string, node int, waits bool) error {
		l := &nodeConn{}
		_, _, err := s.claim(runID, node, l)
		if waits {
			s.quarantined(l)
		}
		s.close(l)
		return err
	}
	require.NoError(t, claim(run("1"), 0, true))
	require.Error(t, claim(run("1"), 1, false))
	require.NoError(t, claim(run("1"), 0, true), "its next look")
	require.Error(t, claim(run("1"), 1, false))
	require.NoError(t, claim(run("2"), 0, false), "another server")
	require.NoError(t, claim(run("1"), 1, true))
	require.Error(t, claim(run("1"), 0, false))
	s.leave(1)
	require.NoError(t, claim(run("1"), 0, false))
}

// redirect is a DialFunc by which the name of node i leads to the server of node to[i]; nowhere
// while that is negative.
func redirect(nodes *lockpipetest.Nodes, to []atomic.Int32) DialFunc {
	return func(ctx context.Context, network, name string) (net.Conn, error) {
		for i, u := range nodes.URLs() {
			if strings.HasSuffix(u, name) {
				if to[i].Load() < 0 {
					return nil, errors.New("nowhere")
				}
				return new(net.Dialer).DialContext(ctx, network,
					strings.TrimPrefix(nodes.URLs()[to[i].Load()], "redis://"))
			}
		}
		return nil, errors.New("unknown")
	}
}

// The goal: an extension that began before its node got the server is not sent there, because the
// server may have granted it as another node. All else is sent, and so is an extension that begins
// later.
func TestServers_DoNotExtendTwiceWhatBeganBeforeAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		var attempts []*Attempt
		begin := func(kinds ...kind) {
			for _, k := range kinds {
				a := m.newAttempt(claim("k", "t"), k, time.Minute, time.Second, time.Minute)
				a.claim.latest = a
				attempts = append(attempts, a)
			}
		}
		begin(acquire, extend, release)
		on := &nodeConn{movedAt: time.Now()} // at the same moment
		time.Sleep(time.Nanosecond)
		begin(acquire, extend, release)
		f, answers := new(flushScratch), make([]answer, len(attempts))
		f.buildCommands(on, attempts, answers)
		grant, extended, not := answer{vote: granted, replied: true, keyIndex: -1}, answer{
			vote:    granted,
			replied: true, keyIndex: -1, conn: on,
		}, answer{leftNothing: true, err: errMoved}
		require.Equal(t, []answer{grant, not, grant, grant, extended, grant}, answers)
	})
}

// The goal: a shorter TTL that may still take effect on a server keeps it from confirming a longer
// one, also as another node. A node that had its server before is not concerned.
func TestServers_MayStillShortenAsAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		c := claim("k", "t")
		before := &nodeConn{movedAt: time.Now()}
		time.Sleep(time.Nanosecond)
		short := m.newAttempt(c, extend, time.Second, time.Second, time.Second)
		c.connectionBroke(short, nodeBit(0))
		after := &nodeConn{movedAt: time.Now()}
		for _, test := range []struct {
			line    *nodeConn
			ttl     time.Duration
			granted bool
		}{{before, time.Minute, true}, {after, time.Minute, false}, {after, time.Second, true}} {
			a := m.newAttempt(c, extend, test.ttl, time.Second, time.Second)
			c.addExtendVote(a, 1, answer{vote: granted, replied: true, conn: test.line})
			require.Equal(t, test.granted, a.granted.has(1))
		}
	})
}

// The goal: a node whose name leads to another's server gets it when the other one has lost it, and
// knows when that was.
func TestServers_MoveWhenNamesChange(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 3)
	to := make([]atomic.Int32, 3)
	for i := range to {
		to[i].Store(int32(i))
	}
	m := start(t, nodes.URLs(), func(c *Config) { c.Dial = redirect(nodes, to) })
	up(t, m)
	to[0].Store(1)
	ask(t, nodes, 0, "CLIENT", "KILL", "TYPE", "normal")
	becomes(t, m, 0, NodeDown, "is the same server as")
	to[1].Store(-1)
	before := time.Now()
	ask(t, nodes, 1, "CLIENT", "KILL", "TYPE", "normal")
	becomes(t, m, 1, NodeDown, "nowhere")
	becomes(t, m, 0, NodeUp, "")
	require.WithinRange(t, m.nodes[0].active.conn.Load().movedAt, before, time.Now())
	require.NoError(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()),
		"servers 1 and 2 are a quorum")
	to[1].Store(1)
	becomes(t, m, 1, NodeDown, "is the same server as")
}

// twoNames lets a user without these permissions in, and returns the URLs of the server under two
// names.
func twoNames(t *testing.T, nodes *lockpipetest.Nodes, without ...string) []string {
	t.Helper()
	ask(t, nodes, 0, append([]string{"ACL", "SETUSER", "u", "on", ">p", "+@all"}, without...)...)
	address := strings.TrimPrefix(nodes.URLs()[0], "redis://")
	return []string{"redis://u:p@" + address, "redis://u:p@" + strings.Replace(address, "127.0.0.1",
		"localhost", 1)}
}

// The goal: servers that do not show their run_id are told apart as well, if the user may write and
// read some key.
func TestServers_AreToldApartWithoutARunID(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	m := start(t, twoNames(t, nodes, "~*", "-info"), mode(GuardOff))
	require.Eventually(t, func() bool {
		var up, same int
		for _, n := range m.Nodes() {
			if n.State == NodeUp {
				up++
			} else if n.Err != nil && strings.Contains(n.Err.Error(), "is the same server as") {
				same++
			}
		}
		return up == 1 && same == 1
	}, patient, time.Millisecond)
	for range 20 { // neither of two names that are tried again and again gets the other's vote
		require.Negative(t, m.SpareNodes())
	}
	// The second name is tried again and again, so its key is there for a moment each time.
	require.Eventually(t, func() bool {
		keys, _ := ask(t, nodes, 0, "KEYS", "*").([]any)
		return len(keys) == 0
	}, patient, time.Millisecond, "the keys that told them apart are not deleted")
}

// The goal: servers that can't be told apart vote, and the log says so once for each node.
func TestServers_ThatCannotBeToldApartVoteWithAWarning(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 1)
	var log bytes.Buffer
	m := start(t, twoNames(t, nodes, "~locks:*", "-info"), func(c *Config) {
		c.Guard, c.Logger = GuardOff, slog.New(slog.NewTextHandler(&log, nil))
	})
	up(t, m)
	require.NoError(t, m.Close(t.Context()))
	require.Equal(t, 1, strings.Count(log.String(), "can't be told apart"), log.String())
}

// The goal: a node that hangs keeps no other from being told apart: it loses its connection, and
// has to prove itself.
func TestServers_DoNotWaitForANodeThatHangs(t *testing.T) {
	nodes := lockpipetest.StartRealT(t, 2)
	for i := range 2 {
		ask(t, nodes, i, "ACL", "SETUSER", "u", "on", ">p", "+@all", "~*", "-info")
	}
	to := make([]atomic.Int32, 2)
	to[1].Store(-1)
	var urls []string
	for _, u := range nodes.URLs() {
		urls = append(urls, strings.Replace(u, "redis://", "redis://u:p@", 1))
	}
	m := start(t, urls, func(c *Config) { c.Guard, c.Dial = GuardOff, redirect(nodes, to) })
	becomes(t, m, 0, NodeUp, "")
	hung := m.nodes[0].active.conn.Load()
	require.NoError(t, nodes.Freeze(0))
	to[1].Store(1)
	becomes(t, m, 1, NodeUp, "")
	require.True(t, hung.isClosed.Load())
	require.NoError(t, nodes.Thaw(0))
	up(t, m)
}

// The goal: a server stays a new one for its node until an extension that began before can't come
// any more, also on the node's second connection to it.
func TestServers_AreStillNewOnTheSecondConnection(t *testing.T) {
	s := newServers(make([]endpoint, 2))
	a, _, _ := claimed(t, s, run("1"), 0)
	began := time.Now()
	s.close(a)
	b := &nodeConn{}
	var err error
	b.movedAt, _, err = s.claim(run("1"), 1, b)
	require.NoError(t, err)
	require.True(t, b.mayRepeat(began))
	s.close(b)
	again := &nodeConn{}
	again.movedAt, _, err = s.claim(run("1"), 1, again)
	require.NoError(t, err)
	require.True(t, again.mayRepeat(began), "node a's vote on it was this server's")
}

// The goal: an extension asks for no longer TTL than a quorum of nodes counts for: a node whose
// server may be the one that may still shorten it does not count.
func TestServers_ThatMayStillShortenAreNotTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		c := claim("k", "t")
		short := m.newAttempt(c, extend, time.Second, time.Second, time.Second)
		c.connectionBroke(short, nodeBit(0))
		time.Sleep(time.Nanosecond)
		moved := &nodeConn{movedAt: time.Now()} // or restarted
		moved.state.Store(connVerified)
		m.nodes[1].active.conn.Store(moved)
		ttl := m.MaxConfirmableTTL(c, time.Minute)
		a := m.newAttempt(c, extend, ttl, time.Second, time.Second)
		c.latest = a
		c.addExtendVote(a, 1, answer{vote: granted, replied: true, conn: moved})
		c.addExtendVote(a, 2, answer{vote: granted, replied: true, conn: &nodeConn{}})
		require.Equal(t, won, a.decision, "both other nodes granted %v", ttl)
	})
}
