package nodes

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// trickling is a connection on which, while slow is true, a byte comes each second.
type trickling struct {
	net.Conn
	slow *atomic.Bool
}

func (c *trickling) Read(p []byte) (int, error) {
	if c.slow.Load() && len(p) > 1 {
		time.Sleep(time.Second)
		p = p[:1]
	}
	return c.Conn.Read(p)
}

// The goal: a server that answers a byte a second is left: the oldest trip has a bound. A short
// answer keeps to it. Close has a bound too, without a deadline of its own.
func TestTrickle_AServerThatAnswersByteByByteIsLeft(t *testing.T) {
	t.Parallel()
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			v := kit.NewFakeNodes(t, 3)
			var slow atomic.Bool
			c, err := lockpipe.New(kit.Config(v.URLs, []func(*lockpipe.Config){
				func(cfg *lockpipe.Config) {
					cfg.NodeTimeout = 50 * time.Millisecond
					cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						conn, err := v.Dial(ctx, network, addr)
						return &trickling{conn, &slow}, err
					}
				},
			}))
			require.NoError(t, err)
			v.Connect(t, c)
			l := kit.Try(t, c, "k")
			slow.Store(true)
			if !closes {
				_ = l.Release(t.Context())
				_, _ = c.Peek(t.Context(), lockpipe.Slots("k", 10)) // a long answer
				time.Sleep(25 * time.Second)
				for _, n := range c.Nodes() {
					require.NotEqual(t, lockpipe.NodeUp, n.State, "%+v", n)
				}
			}
			began := time.Now()
			_ = c.Close(context.Background())
			require.Less(t, time.Since(began), 20*time.Second)
			slow.Store(false)
		})
	}
}
