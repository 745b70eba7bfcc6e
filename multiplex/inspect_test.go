package multiplex

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/preflight"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// inspector returns an Inspector as a client has one. It ends with the test.
func inspector(t *testing.T, m *Mux) *preflight.Inspector {
	t.Helper()
	all := preflight.New(preflight.Config{
		Links: m.Links(), NodeTimeout: m.cfg.NodeTimeout, Dial: m.cfg.Dial,
		Prefix: m.cfg.Prefix, Guard: m.cfg.Guard, Logger: m.cfg.Logger,
	})
	t.Cleanup(func() { all.Close(context.Background()) })
	return all
}

// The goal: a real server's answers come through: who it is, its settings, and its time, which is
// that of this machine.
func TestInspect_ReadsARealServer(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 2)
	for _, setting := range [][2]string{
		{"appendfsync", "always"},
		{"no-appendfsync-on-rewrite", "yes"},
	} {
		_, err := nodes.Do(1, "CONFIG", "SET", setting[0], setting[1])
		require.NoError(t, err)
	}
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	all, err := inspector(t, m).Ask(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	for i, f := range all {
		require.NoError(t, f.Err)
		require.Empty(t, f.CommandErrors)
		require.Equal(t, m.Nodes()[i].Addr, f.Node)
		for field, pattern := range map[string]string{
			"redis_version": `^\d+\.\d+`, "run_id": "^.{40}$", "master_replid": "^.{40}$",
			"maxmemory_policy": "^noeviction$", "used_memory": `^[1-9]\d*$`,
			"connected_clients": `^[1-9]\d*$`, "role": "^master$", "cluster_enabled": "^0$",
			"loading": "^0$", "aof_enabled": "^0$", "rdb_last_bgsave_status": "^ok$",
		} {
			require.Regexp(t, pattern, f.Info[field], field)
		}
		last := len(f.Samples) - 1
		require.Positive(t, last)
		require.GreaterOrEqual(t, f.Samples[last].Received.Sub(f.Samples[0].Sent),
			preflight.SampleSpan)
		for _, s := range f.Samples {
			require.WithinRange(t, s.Server, s.Sent.Round(0).Add(-time.Minute),
				s.Received.Round(0).Add(time.Minute))
		}
	}
	require.NotEqual(t, all[0].RunID(), all[1].RunID())
	require.NotEqual(t, all[0].Info["master_replid"], all[1].Info["master_replid"])
	require.Equal(t, "always", all[1].Settings["appendfsync"])
	require.Equal(t, "yes", all[1].Settings["no-appendfsync-on-rewrite"])
	require.Equal(t, "no", all[0].Settings["no-appendfsync-on-rewrite"])
	require.Eventually(t, func() bool { return others(t, nodes, 0) == 1 }, patient,
		often,
		"the connection for the look is not closed")
}

// The goal: commands that the server refuses are reported, once each, without the password. The
// round trips are still measured.
func TestInspect_ReportsCommandErrors(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	_, err := nodes.Do(0, "ACL", "SETUSER", "me", "on", ">secret", "~*", "+@all", "-info",
		"-config")
	require.NoError(t, err)
	m := start(t, []string{"redis://me:secret@" + nodes.URLs()[0][len("redis://"):]},
		func(c *Config) { c.Guard = guard.Off })
	up(t, m)
	ask(t, nodes, 0, "ACL", "SETUSER", "me", "-time") // a node without it does not come up
	all, err := inspector(t, m).Ask(t.Context())
	require.NoError(t, err)
	f := all[0]
	require.NoError(t, f.Err)
	require.Len(t, f.CommandErrors, 3)
	for i, command := range []string{"INFO", "CONFIG GET", "TIME"} {
		require.Equal(t, command, f.CommandErrors[i].Command)
		require.Contains(t, f.CommandErrors[i].Text, "NOPERM")
	}
	require.Empty(t, f.Info)
	require.NotEmpty(t, f.Samples)
	for _, s := range f.Samples {
		require.True(t, s.Server.IsZero())
		require.Positive(t, s.RoundTrip())
	}
}

// The goal: a node that was stopped is given up, and no other node. Afterwards it can be inspected
// again.
func TestInspect_GivesUpAStoppedNode(t *testing.T) {
	notShort(t, "a real node that hangs")
	t.Parallel()
	nodes := servertest.Start(t, 3)
	m := start(t, nodes.URLs(), nil)
	up(t, m)
	_, err := inspector(t, m).Ask(t.Context())
	require.NoError(t, err)
	require.NoError(t, nodes.Freeze(1))
	all, err := inspector(t, m).Ask(t.Context())
	require.NoError(t, err)
	require.NoError(t, all[0].Err)
	require.Error(t, all[1].Err)
	require.NoError(t, all[2].Err)
	require.NoError(t, nodes.Thaw(1))
	up(t, m)
	all, err = inspector(t, m).Ask(t.Context())
	require.NoError(t, err)
	require.NoError(t, all[1].Err)
}

// openings count the connections of a Mux that are open.
type openings struct {
	now, most, all atomic.Int32
}

func (o *openings) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	o.all.Add(1)
	o.most.Store(max(o.most.Load(), o.now.Add(1)))
	return &opening{Conn: conn, count: o}, nil
}

// opening is one of them.
type opening struct {
	net.Conn
	count *openings
	once  sync.Once
}

func (o *opening) Close() error {
	o.once.Do(func() { o.count.now.Add(-1) })
	return o.Conn.Close()
}

// The goal: an inspection takes two connections more, however many callers ask, and closes them.
// The connection for locks stays as it is, and no command of the inspection writes or ends
// anything.
func TestInspect_HasConnectionsOfItsOwn(t *testing.T) {
	notShort(t, "the connections of several inspections")
	t.Parallel()
	nodes := servertest.Start(t, 1)
	var o openings
	m := start(t, nodes.URLs(), func(c *Config) {
		c.Dial, c.Guard = o.dial, guard.Off // so nothing is sent that is not asked for
	})
	up(t, m)
	line, looks := m.nodes[0].Link.Current(), inspector(t, m)
	ask(t, nodes, 0, "CONFIG", "RESETSTAT")
	var callers sync.WaitGroup
	for range 5 {
		callers.Go(func() {
			all, err := looks.Ask(context.Background())
			if err != nil || all[0].Err != nil {
				t.Error(err, all)
			}
		})
	}
	callers.Wait()
	require.EqualValues(t, 3, o.all.Load())
	require.EqualValues(t, 3, o.most.Load())
	require.EqualValues(t, 1, o.now.Load(), "it is not closed")
	require.Same(t, line, m.nodes[0].Link.Current())
	harmless := []string{
		"info", "config|get", "time", "client|tracking", "client|caching", "hgetall",
	}
	ours := []string{ // the last ones are those of script.Probe
		"config|resetstat", "ping", "evalsha", "set", "mget", "exists", "pexpire", "del",
		"getrange", "pttl",
	}
	for name := range resp.ParseInfo(ask(t, nodes, 0, "INFO", "commandstats").(string)) {
		command, is := strings.CutPrefix(name, "cmdstat_")
		if is && !slices.Contains(ours, command) {
			require.Contains(t, harmless, command)
		}
	}
	_, err := looks.Ask(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 5, o.all.Load())
	require.EqualValues(t, 1, o.now.Load())
}

// The goal: a node is inspected whatever its state.
func TestInspect_ReadsNodesWithoutAVote(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 5)
	ask(t, nodes, 0, "SET", ids.AdmittedKey, "another server")
	host, port, _ := strings.Cut(strings.TrimPrefix(nodes.URLs()[3], "redis://"), ":")
	ask(t, nodes, 1, "REPLICAOF", host, port)
	require.NoError(t, nodes.Kill(2))
	ask(t, nodes, 4, "CONFIG", "SET", "requirepass", "pw")
	m := start(t, nodes.URLs(), nil)
	becomes(t, m, 0, link.Quarantined, whyForeign)
	becomes(t, m, 1, link.Down, "READONLY")
	becomes(t, m, 2, link.Down, "refused")
	becomes(t, m, 4, link.Down, "NOAUTH")
	all, err := inspector(t, m).Ask(t.Context())
	require.NoError(t, err)
	require.NoError(t, all[0].Err)
	require.Contains(t, all[0].Admission.Text, "lost:")
	require.Positive(t, all[0].Admission.PTTL)
	require.Len(t, all[0].RunID(), 40)
	require.NoError(t, all[1].Err)
	require.Equal(t, "slave", all[1].Info["role"])
	require.ErrorContains(t, all[2].Err, "connection refused")
	require.ErrorContains(t, all[4].Err, "NOAUTH")
	require.Empty(t, all[4].CommandErrors)
	for _, i := range []int{0, 1, 3} {
		require.Equal(t, "noeviction", all[i].Info["maxmemory_policy"])
		require.NotEmpty(t, all[i].Samples)
	}
}

// The goal: a Sentinel and a node of a Redis Cluster are known as such.
func TestInspect_KnowsWhatIsNoMaster(t *testing.T) {
	t.Parallel()
	s := startClusterNode(t)
	sentinel := lockpipetest.StartReplicatedT(t).Sentinels()[0]
	m := start(t, append(s.url(), sentinel), nil)
	all, err := inspector(t, m).Ask(t.Context())
	require.NoError(t, err)
	require.Equal(t, "cluster", resp.ServerMode(all[0].Info))
	require.Equal(t, "sentinel", resp.ServerMode(all[1].Info))
	require.NoError(t, all[1].Err)
}

// The goal: an inspection abandons a Config.Dial that ignores its context. The next one does not
// call it again before it has returned. It blocks neither Close nor the connector.
func TestInspect_AbandonsAStuckDial(t *testing.T) {
	whileStuck(t, "node", func(t *testing.T, m *Mux, s *stuck) {
		looks := inspector(t, m)
		all, err := looks.Ask(t.Context())
		require.NoError(t, err)
		require.ErrorContains(t, all[0].Err, "Config.Dial has not returned")
		require.EqualValues(t, 2, s.calls.Load(), "one of the connector, and one of the look")
		_, err = looks.Ask(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 2, s.calls.Load(), "two looks dial at the same time")
		synctest.Wait() // the connector leaves its call at the same instant
		require.Equal(t, link.Down, m.Nodes()[0].State)
		wantsClosed(t, s)
		wantsClosed(t, s)
		synctest.Wait()
		ended := make(chan error, 1)
		go func() {
			_, err := looks.Ask(context.Background())
			ended <- err
		}()
		synctest.Wait()
		require.LessOrEqual(t, closes(t, m), endpoint.DialGrace)
		began := time.Now()
		looks.Close(t.Context())
		require.LessOrEqual(t, time.Since(began), endpoint.DialGrace)
		require.Equal(t, preflight.ErrClosed, <-ended)
	})
}

// The goal: a server that takes questions and does not answer is waited for as long as the
// connection for locks would be, or for NodeTimeout if that is longer.
func TestInspect_GivesUpAServerThatDoesNotAnswer(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		50 * time.Millisecond: 1500 * time.Millisecond,
		3 * time.Second:       3 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			m := start(t, []string{"node"}, func(c *Config) {
				c.NodeTimeout = timeout
				c.Dial = func(context.Context, string, string) (net.Conn, error) {
					client, server := net.Pipe()
					go func() { _, _ = io.Copy(io.Discard, server) }()
					return client, nil
				}
			})
			began := time.Now()
			all, err := inspector(t, m).Ask(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, time.Since(began))
			require.EqualError(t, all[0].Err, "no answer within "+want.String())
			require.NoError(t, m.Close(t.Context()))
		})
	}
}

// The goal: a node that is not reached in time says so, and a name that is not found in time is
// named.
func TestInspect_SaysWhatTookTooLong(t *testing.T) {
	name := &net.DNSError{
		Err: "i/o timeout", Name: "a.host", IsTimeout: true, UnwrapErr: context.DeadlineExceeded,
	}
	for want, failure := range map[string]error{
		"not connected within 5s: Config.Dial is not over after 5s": context.DeadlineExceeded,
		"(dial tcp: lookup a.host: i/o timeout)": &net.OpError{
			Op: "dial", Net: "tcp", Err: name,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := start(t, []string{"node"}, func(c *Config) {
				c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, failure
				}
			})
			all, err := inspector(t, m).Ask(t.Context())
			require.NoError(t, err)
			require.ErrorContains(t, all[0].Err, want)
			require.NotErrorIs(t, all[0].Err, context.DeadlineExceeded)
			time.Sleep(endpoint.DialGrace)
			require.ErrorContains(t, m.Nodes()[0].Err, want)
			closes(t, m)
		})
	}
}
