package lockpipe_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
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
		cfg.TTL, cfg.NodeTimeout, cfg.MaxTTL = 4*time.Second, 2*time.Second, longTTL
	}
	holder := connected(t, newClient(t, nodes, short,
		func(cfg *lockpipe.Config) { cfg.Dial = names.dial }))
	other := connected(t, newClient(t, nodes, short))
	first := take(t, holder, "k", lockpipe.WithAutoExtend(time.Hour))
	onEvery(t, nodes, span(0, 3), "k", first.Token())

	names.lead(address(nodes, 0), address(nodes, 1))
	names.lead(address(nodes, 2), "")
	connects := holder.Nodes()[0].Stats.Connects // on a busy machine it may have lost a connection
	disconnect(t, nodes, holder, 0, 2)
	down(t, holder, 0, "is the same server as "+address(nodes, 1))

	second := take(t, other, "k")
	require.Error(t, first.Err(), "two hold the key")
	require.NoError(t, second.Release(t.Context()))
	require.Equal(t, connects, holder.Nodes()[0].Stats.Connects, "the second name never was up")

	names.lead(address(nodes, 0), address(nodes, 0))
	eventually(t, func() bool { return holder.Nodes()[0].State == lockpipe.NodeUp },
		"the name leads to a server of its own again")
}

// disconnect ends the client's connections to some nodes.
func disconnect(t *testing.T, nodes *lockpipetest.Nodes, c *lockpipe.Client, which ...int) {
	t.Helper()
	for _, i := range which {
		before := c.Nodes()[i].Stats.Disconnects
		do(t, nodes, i, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		eventually(t, func() bool { return c.Nodes()[i].Stats.Disconnects > before },
			"node %d stays connected", i)
	}
}

// The goal: two names of one server in the configuration are one vote, with each guard, and the
// second says why.
func TestSameServer_IsRefusedUnderASecondName(t *testing.T) {
	skipIfShort(t, "one server under two names, with each guard")
	t.Parallel()
	nodes := servertest.Start(t, 1)
	first := address(nodes, 0)
	second := strings.Replace(first, "127.0.0.1", "localhost", 1)
	for _, mode := range []lockpipe.GuardMode{
		lockpipe.GuardAuto, lockpipe.GuardStrict,
		lockpipe.GuardOff,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			c := newClient(t, nodes, func(cfg *lockpipe.Config) {
				cfg.Nodes, cfg.RestartGuard, cfg.Prefix = []string{first, second}, mode,
					mode.String()+":"
				cfg.TTL, cfg.MaxTTL, cfg.NodeTimeout = time.Second, 2*time.Second, time.Second
			})
			eventually(t, func() bool {
				up, same := 0, 0
				for _, n := range c.Nodes() {
					if n.State == lockpipe.NodeUp {
						up++
					}
					if n.State == lockpipe.NodeDown &&
						strings.Contains(n.Err.Error(), "is the same server as") {
						same++
					}
				}
				return up == 1 && same == 1
			}, "one is up, and the other is the same server")
			_, err := c.TryAcquire(t.Context(), "k")
			require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
			require.ErrorContains(t, err, "is the same server as")
		})
	}
}

// The goal: a server has one vote in all groups together, whatever it is called.
func TestSameServer_IsRefusedInASecondGroup(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 2)
	urls := nodes.URLs()
	var names names
	names.lead("other:6379", address(nodes, 0))
	c := newClient(t, nodes, func(cfg *lockpipe.Config) {
		cfg.Nodes, cfg.Dial = nil, names.dial
		cfg.Groups = []lockpipe.Group{
			{Name: "a", Nodes: urls[:1]}, {Name: "b", Nodes: []string{"other:6379", urls[1]}},
		}
	})
	eventually(t, func() bool {
		all := c.Nodes()
		var same [2]bool
		for i := range same {
			err := all[i].Err
			same[i] = err != nil && strings.Contains(err.Error(), "is the same server as")
		}
		return same[0] != same[1]
	}, "%v", c.Nodes())
}
