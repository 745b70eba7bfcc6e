package lockpipe

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/stretchr/testify/require"
)

// The goal: a handoff has the time that its lease has left, even if the machine is suspended during
// the handoff. If little is left, the lease is extended first. Otherwise it ends when it would have
// ended.
func TestHandoff_CountsASuspensionMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slept := time.Hour
		c, err := newClient(Config{
			Nodes: []string{"node:1"},
			Dial:  hangingDial,
		}, func(time.Time) time.Duration { return slept })
		require.NoError(t, err)
		defer func() { _ = c.Close(t.Context()) }()
		o := callOptions{ttl: 20 * time.Second}
		until := time.Now().Add(lease.Validity(o.ttl))
		give := func() *handoff {
			claim := new(parts.Claim)
			claim.Init(c.mux, []string{"k"}, "token", "")
			return &handoff{claim, until, c.suspended(), new(handoffChain)}
		}

		g := give()
		slept += 4 * time.Second
		l, a := c.acceptHandoff(g, new(keyqueue.Call), o)
		require.Nil(t, a)
		require.Equal(t, until.Add(-4*time.Second), l.Until())

		g = give()
		slept += 10 * time.Second
		_, a = c.acceptHandoff(g, new(keyqueue.Call), o)
		require.NotNil(t, a)
	})
}

// hangingDial is the Dial of a node that does not answer.
func hangingDial(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
