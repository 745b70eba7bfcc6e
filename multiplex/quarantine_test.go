package multiplex

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: a client that had admitted the nodes knows that they lost everything together, though
// they look as before their first use; and it votes again with them after the longest TTL, not
// before.
func TestQuarantine_AllNodesThatRestartTogetherWait(t *testing.T) {
	notShort(t, "nodes that restarted vote after MaxTTL")
	t.Parallel()
	nodes := servertest.Start(t, 3)
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
		becomes(t, m, i, link.Quarantined, whyRestarted)
	}
	for i := range nodes.Len() {
		becomes(t, m, i, link.Up, "")
		require.Equal(t, runID(t, nodes, i), ask(t, nodes, i, "GET", ids.AdmittedKey))
	}
	require.GreaterOrEqual(t, time.Since(restarted), 6*time.Second)
}

// The goal: a wait that began while it could be the first use lasts no longer when the wait of
// another node has ended that.
func TestQuarantine_DoesNotBeginAgain(t *testing.T) {
	notShort(t, "a wait is no longer when it can be no first use any more")
	t.Parallel()
	nodes := servertest.Start(t, 3)
	require.NoError(t, nodes.Kill(2))
	m := start(t, nodes.URLs(), waits(5*time.Second))
	until := []time.Time{becomes(t, m, 0, link.Quarantined, "").Until, becomes(t, m, 1,
		link.Quarantined, "").Until}
	require.Eventually(t, func() bool {
		up := 0
		for i, before := range until {
			switch s := m.Nodes()[i]; s.State {
			case link.Up:
				up++
			case link.Quarantined:
				require.WithinDuration(t, before, s.Until, time.Second)
			}
		}
		return up == 2
	}, patient, often)
}

// The goal: the name is written only where the key still is what was seen: another client may have
// admitted the server meanwhile, and it may have been flushed again.
func TestQuarantine_AKeyThatHasChangedIsKept(t *testing.T) {
	notShort(t, "a second loss at the end of a wait")
	t.Parallel()
	nodes := servertest.Start(t, 1)
	knowing := start(t, nodes.URLs(), waits(4*time.Second))
	up(t, knowing)
	require.NoError(t, knowing.Close(t.Context()))
	ask(t, nodes, 0, "SET", ids.AdmittedKey, "lost:1")
	var once sync.Once
	m := start(t, nodes.URLs(), func(c *Config) {
		waits(4 * time.Second)(c)
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &spy{Conn: conn, wrote: func(p []byte) {
				if settles(p) {
					once.Do(func() { _, _ = nodes.Do(0, "SET", ids.AdmittedKey, "lost:2") })
				}
			}}, err
		}
	})
	begin := becomes(t, m, 0, link.Quarantined, "").Until
	later := begin
	require.Eventually(t, func() bool {
		s := m.Nodes()[0]
		if s.State == link.Quarantined {
			later = s.Until
		}
		return s.State == link.Up
	}, patient, often)
	require.True(t, later.After(begin), "it waits for the second loss as well")
}

// The goal: a client that keeps looking sees that another has lifted the quarantine, or an
// operator.
func TestQuarantine_AnotherClientLiftsIt(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	first := start(t, nodes.URLs(), nil)
	up(t, first)
	require.NoError(t, nodes.Restart(0))
	becomes(t, first, 0, link.Quarantined, whyRestarted)
	second := start(t, nodes.URLs(), mode(guard.Strict))
	becomes(t, second, 0, link.Quarantined, whyWaits)
	ask(t, nodes, 0, "SET", ids.AdmittedKey, runID(t, nodes, 0))
	becomes(t, first, 0, link.Up, "")
	becomes(t, second, 0, link.Up, "")
}

// The goal: what a quarantined node is owed is dropped when its keys have expired, as for a node
// that is down.
func TestQuarantine_ReleasesArePendingUntilTheyExpire(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	c := claim("k", "t")
	require.NoError(t, wait(m.Acquire(c, time.Second, 1), t.Context()))
	require.NoError(t, nodes.Restart(0))
	becomes(t, m, 0, link.Quarantined, "")
	release := m.Release(c, 1)
	require.ErrorIs(t, wait(release, t.Context()), ErrNoQuorum)
	require.Equal(t, 1, m.Nodes()[0].PendingReleases)
	require.Eventually(t, func() bool {
		return release.Wait(t.Context()).Result == Won
	}, patient, often)
	require.EqualValues(t, 1, m.Nodes()[0].DroppedReleases)
	require.Equal(t, link.Quarantined, m.Nodes()[0].State)
	require.ElementsMatch(t, []any{ids.AdmittedKey, ids.LayoutsKey},
		ask(t, nodes, 0, "KEYS", "*"),
		"a lock command reached a quarantined node")
}

// The goal: a replica is no master, and says so; when it is promoted it has to wait, since
// replication may have missed locks.
func TestQuarantine_AReplicaDoesNotVote(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 2)
	master := start(t, nodes.URLs()[:1], nil)
	up(t, master)
	ask(t, nodes, 1, append([]string{"REPLICAOF"}, strings.Split(strings.TrimPrefix(nodes.URLs()[0],
		"redis://"), ":")...)...)
	require.Eventually(t, func() bool {
		return ask(t, nodes, 1, "GET", ids.AdmittedKey) == runID(t, nodes,
			0)
	}, patient, often)
	m := start(t, nodes.URLs()[1:], nil)
	becomes(t, m, 0, link.Down, "READONLY: it is a replica")
	ask(t, nodes, 1, "REPLICAOF", "NO", "ONE")
	becomes(t, m, 0, link.Quarantined, "")
}

// The goal: GuardStrict also waits before the first use.
func TestGuardMode_StrictWaitsBeforeTheFirstUse(t *testing.T) {
	notShort(t, "the end of that wait")
	t.Parallel()
	nodes := servertest.Start(t, 1)
	begin := time.Now()
	strict := start(t, nodes.URLs(), func(c *Config) {
		c.Guard, c.MaxTTL = guard.Strict, 4*time.Second
	})
	becomes(t, strict, 0, link.Quarantined, whyNoKey)
	becomes(t, strict, 0, link.Up, "")
	require.GreaterOrEqual(t, time.Since(begin), 4*time.Second)
}

// The goal: GuardOff leaves no key of the guard.
func TestGuardMode_OffLeavesNoKey(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	off := start(t, nodes.URLs(), mode(guard.Off))
	up(t, off)
	require.Nil(t, ask(t, nodes, 0, "GET", ids.AdmittedKey))
}

// The goal: GuardStrict admits no server that has no run_id. GuardAuto does that with one warning.
func TestGuardMode_OfAServerWithoutARunID(t *testing.T) {
	t.Parallel()
	urls := startSimple(t, 3, hidesRunID)
	becomes(t, start(t, urls, mode(guard.Strict)), 0, link.Down,
		"GuardStrict admits no such server")
	var warnings atomic.Int32
	auto := start(t, urls, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) {
			if bytes.Contains(p, []byte("has no restart guard")) {
				warnings.Add(1)
			}
		}), nil))
	})
	up(t, auto)
	line := auto.nodes[0].Link.Current()
	require.NoError(t, line.Close())
	require.Eventually(t, func() bool { return auto.nodes[0].Link.Current() != line }, patient,
		often)
	up(t, auto)
	require.EqualValues(t, 3, warnings.Load(), "one for each node")
}

// The goal: a server that does not show its run_id after a restart is not admitted like one that
// never had any.
func TestQuarantine_ANodeThatHadARunIDNeedsOne(t *testing.T) {
	t.Parallel()
	s := startLasting(t)
	m := start(t, s.url(), nil)
	up(t, m)
	s.kill()
	s.args = []string{"--rename-command", "INFO", ""}
	s.start()
	becomes(t, m, 0, link.Down, "does not show a run_id any more")
	becomes(t, start(t, s.url(), mode(guard.Strict)), 0, link.Down,
		"GuardStrict admits no such server") // what the server repeats is cut off behind that
	up(t, start(t, s.url(), nil))
}

// The goal: a restart is not forgiven, however durable the server is: not for the client that knew
// it, nor for a new one.
func TestQuarantine_ARestartFromADiskWaits(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"a snapshot":             nil,
		"an append-only file":    {"--appendonly", "yes", "--appendfsync", "everysec"},
		"every write is on disk": {"--appendonly", "yes", "--appendfsync", "always"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startLasting(t, args...)
			m := start(t, s.url(), nil)
			up(t, m)
			_, err := s.do("SAVE")
			require.NoError(t, err)
			s.kill()
			began := time.Now()
			s.start()
			status := becomes(t, m, 0, link.Quarantined, whyRestarted)
			require.False(t, status.Until.Before(began.Add(time.Minute)))
			becomes(t, start(t, s.url(), nil), 0, link.Quarantined, whyWaits)
		})
	}
}

// The goal: a new client finds the key of the run before on a disk, and waits.
func TestQuarantine_ANewClientKnowsARestartByTheKey(t *testing.T) {
	t.Parallel()
	s := startLasting(t, "--appendonly", "yes", "--appendfsync", "always")
	m := start(t, s.url(), nil)
	up(t, m)
	require.NoError(t, m.Close(t.Context()))
	s.kill()
	s.start()
	becomes(t, start(t, s.url(), nil), 0, link.Quarantined, whyForeign)
}

// The goal: a quarantine does not end because the server does not show its run_id any more, also
// for a client that never admitted it.
func TestQuarantine_DoesNotEndWithoutARunID(t *testing.T) {
	t.Parallel()
	s := startLasting(t)
	_, err := s.do("SET", ids.AdmittedKey, "another")
	require.NoError(t, err)
	m := start(t, s.url(), nil)
	becomes(t, m, 0, link.Quarantined, "")
	s.kill()
	s.args = []string{"--rename-command", "INFO", ""}
	s.start()
	becomes(t, m, 0, link.Down, "does not show a run_id any more")
	becomes(t, start(t, s.url(), mode(guard.Strict)), 0, link.Down,
		"GuardStrict admits no such server") // what the server repeats is cut off behind that
}

// The goal: a master that was a replica for a while has the keys of the other one, and its own
// name among them, but not the locks that the other one missed. Who saw that waits.
func TestQuarantine_AMasterThatWasAReplicaWaits(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 2)
	m := start(t, nodes.URLs()[:1], nil)
	up(t, m)
	follow := func(i, of int) {
		ask(t, nodes, i, append([]string{"REPLICAOF"},
			strings.Split(strings.TrimPrefix(nodes.URLs()[of], "redis://"), ":")...)...)
		require.Eventually(t, func() bool {
			return resp.ParseInfo(ask(t, nodes, i, "INFO",
				"replication").(string))["master_link_status"] == "up"
		}, patient, often)
	}
	follow(1, 0)
	// A failover: it takes over, and misses what comes now.
	ask(t, nodes, 1, "REPLICAOF", "NO", "ONE")
	require.NoError(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))
	follow(0, 1)
	becomes(t, m, 0, link.Down, "READONLY: it is a replica")
	ask(t, nodes, 0, "REPLICAOF", "NO", "ONE")
	require.Nil(t, ask(t, nodes, 0, "GET", "k"))
	becomes(t, m, 0, link.Quarantined, whyRestarted)
	require.ErrorIs(t, wait(m.Acquire(claim("k", "t2"), time.Minute, 1), t.Context()), ErrNoQuorum)
}

// The goal: clients that live for much less than MaxTTL, one after another, get a master back that
// has lost locks, and not before MaxTTL has passed. The wait continues also if the master has
// the name of its former run.
func TestQuarantine_IsSharedByClientsThatLiveShort(t *testing.T) {
	notShort(t, "a wait of MaxTTL over many clients")
	t.Parallel()
	const maxTTL = 3 * time.Second
	for name, former := range map[string]string{
		"empty":                           "",
		"with the name of the run before": strings.Repeat("f", 40),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := servertest.Start(t, 3)
			m := start(t, nodes.URLs(), waits(maxTTL))
			up(t, m)
			require.NoError(t, m.Close(t.Context()))
			for _, i := range []int{1, 2} {
				require.NoError(t, nodes.Restart(i))
				if former != "" {
					ask(t, nodes, i, "SET", ids.AdmittedKey, former)
				}
			}
			began, lives := time.Now(), 0
			next := time.NewTicker(maxTTL / 20)
			defer next.Stop()
			for back := false; !back; lives++ {
				<-next.C
				require.Less(t, time.Since(began), patient)
				m := start(t, nodes.URLs(), waits(maxTTL))
				becomes(t, m, 0, link.Up, "")
				for _, i := range []int{1, 2} {
					met := func() bool { return m.Nodes()[i].State != link.Connecting }
					require.Eventually(t, met, patient, often)
				}
				back = m.QuorumReachable()
				require.NoError(t, m.Close(t.Context()))
			}
			require.GreaterOrEqual(t, time.Since(began), maxTTL, "a master voted too early")
			require.Greater(t, lives, 1, "none of them lives for MaxTTL")
		})
	}
}
