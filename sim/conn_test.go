package sim

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/stretchr/testify/require"
)

// The goal: after a connection has lost data, nothing arrives on it any more. When it breaks, the
// client gets an error.
func TestConn_LossyConnectionIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := &Plan{latency: time.Millisecond, spike: 1}
		n := memorynode.New(0, 1)
		for name, lose := range map[string]func(*conn){
			"request": (*conn).dropOutbound,
			"reply":   (*conn).dropInbound,
		} {
			l := newLink(1, plan, n, &atomicTime{}, &atomicTime{})
			c, err := l.dial(t.Context(), 0)
			require.NoError(t, err)
			answered := func() bool {
				_, err := c.Write(resp.AppendCommand(nil, "PING"))
				require.NoError(t, err)
				require.NoError(t, c.SetDeadline(time.Now().Add(time.Second)))
				read, _ := c.Read(make([]byte, 100))
				return read > 0
			}
			require.True(t, answered(), name)
			lose(l.current())
			require.False(t, answered(), name)
			require.False(t, answered(), name)
			l.heal()
			_, err = c.Read(make([]byte, 100))
			require.Error(t, err, name)
			require.NotErrorIs(t, err, net.ErrClosed, name)
			require.NoError(t, c.Close())
		}
		time.Sleep(time.Second)
		require.Zero(t, n.Sessions(), "the node has closed its session")
	})
}
