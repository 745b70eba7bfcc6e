package nodes

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// names is a Config.Dial whose names can be made to lead elsewhere.
type names struct {
	mu    sync.Mutex
	leads map[string]string // "" is out of reach
}

func (n *names) lead(name, address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leads == nil {
		n.leads = map[string]string{}
	}
	n.leads[name] = address
}

func (n *names) dial(ctx context.Context, network, name string) (net.Conn, error) {
	n.mu.Lock()
	address, changed := n.leads[name]
	n.mu.Unlock()
	if !changed {
		address = name
	}
	if address == "" {
		return nil, errors.New("out of reach")
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// The goal: a holder whose name of one node leads to another node's server, and that can't reach
// the third, has one vote left. Its lease is not extended, and a second caller gets the key only
// after the first was notified.
func TestSameServer_HasOneVoteForAnExtension(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	var names names
	short := func(cfg *lockpipe.Config) {
		cfg.TTL, cfg.NodeTimeout, cfg.MaxTTL = 4*time.Second, 2*time.Second, kit.LongTTL
	}
	holder := kit.Connected(t, kit.NewClient(t, nodes, short,
		func(cfg *lockpipe.Config) { cfg.Dial = names.dial }))
	other := kit.Connected(t, kit.NewClient(t, nodes, short))
	first := kit.Take(t, holder, "k", lockpipe.WithAutoExtend(time.Hour))
	kit.OnEvery(t, nodes, kit.Span(0, 3), "k", first.Token())

	names.lead(kit.Address(nodes, 0), kit.Address(nodes, 1))
	names.lead(kit.Address(nodes, 2), "")
	disconnect(t, nodes, holder, 0, 2)
	second := kit.Take(t, other, "k")
	require.Error(t, first.Err(), "two hold the key")
	require.NoError(t, second.Release(t.Context()))

	names.lead(kit.Address(nodes, 0), kit.Address(nodes, 0))
	kit.Eventually(t, func() bool { return holder.Nodes()[0].State == lockpipe.NodeUp },
		"the name leads to a server of its own again")
}

// disconnect ends the client's connections to some nodes.
func disconnect(t *testing.T, nodes *lockpipetest.Nodes, c *lockpipe.Client, which ...int) {
	t.Helper()
	for _, i := range which {
		before := c.Nodes()[i].Stats.Disconnects
		kit.Do(t, nodes, i, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		kit.Eventually(t, func() bool { return c.Nodes()[i].Stats.Disconnects > before },
			"node %d stays connected", i)
	}
}
