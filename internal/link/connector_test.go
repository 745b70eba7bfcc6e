package link

import (
	"bytes"
	"context"
	"log/slog"
	"net"
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

// The goal: a connection that was not verified in time is not used when the server answers at last.
// What its handshake has told the guard and the fleet was taken back when the connect failed.
func TestLink_AConnectThatFailedLeavesNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memorynode.New(0, 1)
		defer server.Stop()
		var dialled []time.Time
		l, err := New(Config{
			Endpoint: &endpoint.Endpoint{
				Name: "n0", Address: "n0:1", Network: "tcp", DialTimeout: time.Second / 2,
			},
			MaxTTL: time.Minute, Logger: slog.New(slog.DiscardHandler), Owner: idle{},
			Peers: guard.NewPeers(1, []quorum.Nodes{1}),
			Fleet: fleet.New(fleet.Config{MaxTTL: time.Minute, Logger: slog.Default()}),
			Dial: func(context.Context, string, string) (net.Conn, error) {
				dialled = append(dialled, time.Now())
				return &slow{Conn: server.Dial(), isFirst: len(dialled) == 1}, nil
			},
		})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Run(ctx)
		}()
		time.Sleep(5 * time.Second)
		require.Equal(t, Up, l.State())
		require.Len(t, dialled, 2)
		stop()
		<-done
		l.Close()
	})
}
