package restartguard

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// guards returns the guards of a client with as many nodes.
func guards(nodes int, change ...func(*Config)) []*Guard {
	names := strings.Split("abcdefg", "")[:nodes]
	p := NewPeers(names, oneSet(nodes), nil)
	all := make([]*Guard, nodes)
	for i, name := range names {
		c := Config{
			Node: i, Name: name, Marker: "marker", Generations: "generations",
			MaxTTL: time.Minute, ConnectTimeout: 3 * time.Second,
			Logger: slog.New(slog.DiscardHandler),
		}
		for _, f := range change {
			f(&c)
		}
		all[i] = p.Guard(c)
	}
	return all
}

// admitted admits a server of a node, and wants that to succeed.
func admitted(t *testing.T, g *Guard, s *fakeServer) Server {
	t.Helper()
	conn := s.dial(t)
	server, err := g.Admit(t.Context(), conn, nil)
	require.NoError(t, err)
	require.Equal(t, s.runID, server.RunID)
	require.Equal(t, s.runID, s.marker)
	g.Servers().Closed(conn)
	g.ServerLeft()
	return server
}

// quarantined lets a guard look at a server, and wants it to be quarantined for this reason.
func quarantined(t *testing.T, g *Guard, s *fakeServer, reason string) (until time.Time) {
	t.Helper()
	conn := s.dial(t)
	_, err := g.Admit(t.Context(), conn, nil)
	var q *Quarantine
	require.ErrorAs(t, err, &q)
	require.Equal(t, reason, q.Reason)
	require.ErrorContains(t, err, "quarantined until "+q.Until.Format(time.RFC3339)+": "+reason)
	g.Servers().Closed(conn)
	return q.Until
}

// The goal: nodes that are used for the first time are admitted together, and have their markers.
func TestGuard_AdmitsAllNodesAtTheirFirstUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nodes sync.WaitGroup
		for i, g := range guards(3) {
			s := newFakeServer(run(string(rune('1' + i))))
			s.durable = true
			nodes.Go(func() {
				require.True(t, g.peers.MayBeFirstUse())
				server := admitted(t, g, s)
				require.True(t, server.Durable)
				require.Contains(t, s.generations, "=1", "its generation begins")
				require.False(t, g.peers.MayBeFirstUse())
			})
		}
		nodes.Wait()
	})
}

// The goal: a server that restarted waits for MaxTTL since its predecessor was there, behind a
// loss record, and then has the marker. It is admitted sooner if another client writes the marker.
func TestGuard_AServerThatRestartedWaits(t *testing.T) {
	for _, lifted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g, s := guards(1)[0], newFakeServer(run("1"))
			admitted(t, g, s)
			s.runID, s.marker = run("2"), ""
			time.Sleep(time.Second)
			until := quarantined(t, g, s, reasonRestarted)
			require.Equal(t, time.Now().Add(time.Minute), until)
			require.Regexp(t, "^lost:660000:"+run("2"), s.marker)
			time.Sleep(30 * time.Second)
			require.Equal(t, until, quarantined(t, g, s, reasonRestarted))
			if lifted {
				s.marker = s.runID
			} else {
				time.Sleep(30 * time.Second)
			}
			admitted(t, g, s)
		})
	}
}

// The goal: a replica is refused, and waits when it is a master again, whatever its marker.
func TestGuard_AReplicaIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := guards(1)[0], newFakeServer(run("1"))
		admitted(t, g, s)
		s.replica = true
		_, err := g.Admit(t.Context(), s.dial(t), nil)
		require.ErrorIs(t, err, errReplica)
		s.replica = false
		quarantined(t, g, s, reasonWasReplica)
	})
}

// The goal: a guard that is off admits every server, and reads and writes no key.
func TestGuard_ThatIsOffAdmitsEveryServer(t *testing.T) {
	g := guards(1, func(c *Config) { c.Marker = "" })[0]
	s := newFakeServer(run("1"))
	s.instead = func(command []string) string {
		require.Equal(t, []string{"INFO", "server"}, command)
		return ""
	}
	server, err := g.Admit(t.Context(), s.dial(t), nil)
	require.NoError(t, err)
	require.Empty(t, server.RunID)
}

// The goal: the setup comes first, and its error is the handshake's.
func TestGuard_TheSetupComesFirst(t *testing.T) {
	g, s := guards(1)[0], newFakeServer(run("1"))
	denied := errors.New("denied")
	deny := func(resp.Value) error { return denied }
	setup := resp.Step{Command: []string{"SETUP"}, OnReply: deny}
	_, err := g.Admit(t.Context(), s.dial(t), []resp.Step{setup})
	require.ErrorIs(t, err, denied)
	require.Equal(t, "SETUP", s.heard[0])
	require.False(t, g.Answered())
	admitted(t, g, s)
	require.True(t, g.Answered())
}

// The goal: Admit ends with its context, and closes the connection.
func TestGuard_AHandshakeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := guards(1)[0], newFakeServer(run("1"))
		s.instead = func([]string) string { time.Sleep(time.Hour); return "" }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		conn := s.dial(t)
		_, err := g.Admit(ctx, conn, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = conn.Write([]byte("x"))
		require.Error(t, err)
		time.Sleep(2 * time.Hour) // until the server is over
	})
}

// keys are a node's keys, as Commands has them.
type keys struct {
	values map[string]Value
	script func(args []string) (int64, error)
	runs   int
}

func (k *keys) Get(_ context.Context, names ...string) []Value {
	values := make([]Value, len(names))
	for i, name := range names {
		values[i] = k.values[name]
	}
	return values
}

func (k *keys) Run(_ context.Context, s *script.Script, _, args []string) (int64, error) {
	k.runs++
	if s != script.Renew {
		return 0, errors.New("another script")
	}
	return k.script(args)
}

// The goal: a renewal writes only if there is something to write. The connection is given up only
// if the node has lost something, and not for an error.
func TestRenew_GivesUpOnlyWhatIsLost(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		marker, generations Value
		result              int64
		err                 error // of the script
		intact              bool
		want                error
		runs                int
	}{
		"its marker":     {marker: Value{Text: "r"}, result: 1, intact: true, runs: 1},
		"another marker": {marker: Value{Text: "lost:x"}},
		"no marker":      {},
		"unread marker":  {marker: Value{Err: broken}, want: broken},
		"unread generations": {
			marker: Value{Text: "r"}, generations: Value{Err: broken}, want: broken,
		},
		"both":            {generations: Value{Err: broken}},
		"script fails":    {marker: Value{Text: "r"}, err: broken, want: broken, runs: 1},
		"marker changed":  {marker: Value{Text: "r"}, result: 0, runs: 1},
		"generation fell": {marker: Value{Text: "r"}, result: -1, runs: 1},
		"another has raised it": {
			marker: Value{Text: "r"}, generations: Value{Text: "g=8"}, intact: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := guards(1)[0]
			g.peers.generations.confirm(0, "r", generation{"g", 7})
			k := &keys{values: map[string]Value{
				"marker": test.marker, "generations": test.generations,
			}}
			k.script = func(args []string) (int64, error) {
				require.Equal(t, []string{"r", "g", "7"}, args[:3])
				require.Regexp(t, "^lost:660000:r.1:[A-Z2-7]{26}:$", args[4])
				k.values["generations"] = Value{Text: "g=8 other=3"}
				return test.result, test.err
			}
			server := Server{RunID: "r", Durable: true, memoryID: "r.1"}
			intact, err := g.Renew(t.Context(), server, k)
			require.ErrorIs(t, err, test.want)
			require.Equal(t, test.intact, intact && err == nil)
			require.Equal(t, test.runs, k.runs)
			if test.intact {
				require.Equal(t, generation{"g", 8}, g.peers.generations.own(0))
			}
		})
	}
}

// The goal: a disk that comes from before the id that a client knows on the node has lost what came
// after it. The client leaves that for others to see, because they can't know it.
func TestGuard_ADiskFromBeforeTheKnownGenerationIsNoWitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := guards(3)[0], newFakeServer(run("2"))
		s.durable, s.marker, s.generations = true, run("2"), "present=3"
		admitted(t, g, s)
		s.runID, s.marker, s.generations = run("3"), run("1"), "earlier=9"
		quarantined(t, g, s, reasonRestored)
		require.Regexp(t, "^lost:.*:$", s.marker, "it names no run to recover")
		require.Equal(t, noGeneration, s.generations)
	})
}

// The goal: if another client admitted a durable server behind this client's back, a new id is no
// sign of an older disk: when it restarts, others may vouch for it.
func TestGuard_AGenerationThatAnotherClientBeganIsNoOlderOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := guards(3)[0], newFakeServer(run("2"))
		s.durable, s.marker, s.generations = true, run("2"), "present=3"
		admitted(t, g, s)
		s.runID, s.generations = run("3"), "later=1"
		quarantined(t, g, s, reasonUnvouched)
		require.Regexp(t, ":"+run("2")+"$", s.marker)
	})
}
