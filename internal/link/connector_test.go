package link

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/stretchr/testify/require"
)

// idle is an owner that has no work.
type idle struct{ nobody }

func (idle) StateChanged(State, State)          {}
func (idle) Connected()                         {}
func (idle) NotConnected()                      {}
func (idle) Work(context.Context) time.Duration { return time.Hour }

// slow is a connection that takes each PING a second later, if it is the first.
type slow struct {
	net.Conn
	isFirst bool
}

func (c *slow) Write(p []byte) (int, error) {
	if !c.isFirst || string(p) != "*1\r\n$4\r\nPING\r\n" {
		return c.Conn.Write(p)
	}
	late := bytes.Clone(p)
	time.AfterFunc(time.Second, func() { _, _ = c.Conn.Write(late) })
	return len(p), nil
}

// moved is a master that the test names.
type moved struct {
	master string
	leave  context.CancelCauseFunc
}

func (*moved) Run(context.Context) (wait func()) { return func() {} }
func (*moved) Confirmed() bool                   { return true }

func (m *moved) FindMaster(_ context.Context, leave context.CancelCauseFunc) (string, error) {
	m.leave = leave
	return m.master, nil
}

// The goal: each connection is dialled, and is left when its server is not the master any more. So
// is a connection that comes after a notice that was meant for an earlier one.
func TestLink_EachConnectionIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := map[string]*memorynode.Node{
			"a:1": memorynode.New(0, 1), "b:1": memorynode.New(1, 1),
		}
		var dialled []string
		masters := &moved{master: "a:1"}
		l, stop := running(t, func(cfg *Config) {
			cfg.Dial = func(_ context.Context, _, address string) (net.Conn, error) {
				dialled = append(dialled, address)
				return servers[address].Dial(), nil
			}
		}, masters)
		defer stop()
		connected := func(want ...string) *Conn {
			t.Helper()
			time.Sleep(2 * time.Minute) // a server of another memory waits for MaxTTL
			synctest.Wait()
			require.Equal(t, Up, l.State())
			require.Equal(t, want, slices.Compact(slices.Clone(dialled)))
			return l.Current()
		}
		first := connected("a:1")
		Notify(l.disconnected) // late: of a connection before
		require.NotSame(t, first, connected("a:1"))
		require.True(t, first.IsClosed())
		masters.master = "b:1"
		masters.leave(errors.New("b is the master"))
		connected("a:1", "b:1")
		for _, server := range servers {
			server.Stop()
		}
	})
}

// running runs a link in a bubble until stop is called.
func running(t *testing.T, change func(*Config), masters endpoint.Masters) (l *Link, stop func()) {
	t.Helper()
	cfg := Config{
		Endpoint: &endpoint.Endpoint{
			Name: "n0", Address: "n0:1", Network: "tcp", DialTimeout: time.Second / 2,
		},
		MaxTTL: time.Minute, Logger: slog.New(slog.DiscardHandler), Owner: idle{},
		Peers: guard.NewPeers(1, []quorum.Nodes{1}),
		Fleet: fleet.New(fleet.Config{MaxTTL: time.Minute, Logger: slog.Default()}),
	}
	change(&cfg)
	of, err := New(cfg)
	require.NoError(t, err)
	of.masters = masters
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		of.Run(ctx)
	}()
	return of, func() {
		end()
		<-done
		of.Close()
	}
}

// The goal: a connection that was not verified in time is not used when the server answers at last.
// What its handshake has told the guard and the fleet was taken back when the connect failed.
func TestLink_AConnectThatFailedLeavesNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memorynode.New(0, 1)
		defer server.Stop()
		var dialled []time.Time
		l, stop := running(t, func(cfg *Config) {
			cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
				dialled = append(dialled, time.Now())
				return &slow{Conn: server.Dial(), isFirst: len(dialled) == 1}, nil
			}
		}, nil)
		time.Sleep(5 * time.Second)
		require.Equal(t, Up, l.State())
		require.Len(t, dialled, 2)
		stop()
	})
}
