package node

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/stretchr/testify/require"
)

// The goal: an operation that comes right after the node's state says up is sent. So the owner
// hears that the node reads before anybody can see that state.
func TestNode_ReadsBeforeItsStateIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memorynode.New(0, 1)
		var seen []link.State // the state that everybody sees when the owner hears of up
		var n *Node
		n, err := New(Config{
			Link: link.Config{
				Endpoint: &endpoint.Endpoint{
					Name: "node", Address: "node:1", Network: "tcp", DialTimeout: time.Minute,
				},
				MaxTTL: time.Minute, Guard: guard.Off,
				Peers:  guard.NewPeers(1, nil),
				Logger: slog.New(slog.DiscardHandler),
				Fleet:  fleet.New(fleet.Config{MaxTTL: time.Minute, Logger: slog.Default()}),
				Dial: func(context.Context, string, string) (net.Conn, error) {
					return server.Dial(), nil
				},
			},
			Group: new(Group), StateChanged: func(s link.State) {
				if s == link.Up {
					seen = append(seen, n.Link.State())
				}
			},
		})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			n.Link.Run(ctx)
		}()
		synctest.Wait()
		stop()
		<-done
		server.Stop()
		require.NotEmpty(t, seen)
		require.NotEqual(t, link.Up, seen[0])
	})
}
