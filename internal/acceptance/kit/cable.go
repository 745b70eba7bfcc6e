package kit

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/outage"
	"github.com/stretchr/testify/require"
)

// AtOnce is how many calls an outage wakes at once.
const AtOnce = outage.MaxAwake

// Cable connects one client with all nodes of a group, or with none of them.
type Cable struct {
	V *FakeNodes

	mu   sync.Mutex // guards all below
	cut  bool
	open []net.Conn
}

// Dial is for Config.Dial.
func (k *Cable) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cut {
		return nil, errors.New("the cable is cut")
	}
	conn, err := k.V.Dial(ctx, network, addr)
	k.open = append(k.open, conn)
	return conn, err
}

// Pull cuts all connections.
func (k *Cable) Pull() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut = true
	for _, conn := range k.open {
		_ = conn.Close()
	}
	k.open = nil
}

// Unplug cuts all connections. When it returns, the client knows that the nodes are down.
func (k *Cable) Unplug(t *testing.T, c *lockpipe.Client) {
	t.Helper()
	k.Pull()
	time.Sleep(time.Second)
	for _, n := range c.Nodes() {
		require.Equal(t, lockpipe.NodeDown, n.State)
	}
}

// Plug lets the client dial again.
func (k *Cable) Plug() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut = false
}

// Reconnected plugs the cable in. When it returns, the client is connected to all nodes again.
func (k *Cable) Reconnected(t *testing.T, c *lockpipe.Client) {
	t.Helper()
	k.Plug()
	for range 100 { // the nodes are dialled at least twice a second
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if AllUp(c) {
			return
		}
	}
	require.Fail(t, "the nodes do not come back")
}

// InOutage runs a test in a bubble with n nodes, all of them down, and a client.
func InOutage(t *testing.T, n int, test func(t *testing.T, k *Cable, c *lockpipe.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := &Cable{V: NewFakeNodes(t, n)}
		c := k.V.Client(t, func(cfg *lockpipe.Config) { cfg.Dial = k.Dial })
		k.Unplug(t, c)
		test(t, k, c)
	})
}
