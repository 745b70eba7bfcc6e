package nodes

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: over a network with round trips of 0.9 s nodes come up and stay up, through
// renewals, and a lease is held there.
func TestDialTimeout_NodesFarAwayComeUpAndStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 3)
		v.Latency(450 * time.Millisecond)
		for _, n := range v.Nodes {
			n.Far = true
		}
		c, err := lockpipe.New(kit.Config(v.URLs, []func(*lockpipe.Config){
			func(cfg *lockpipe.Config) { cfg.Dial = v.Dial },
		}))
		require.NoError(t, err)
		v.Connect(t, c)
		began := time.Now()
		for !kit.AllUp(c) {
			require.Less(t, time.Since(began), 3*time.Minute, "%v", c.Nodes())
			time.Sleep(time.Second)
		}
		l := kit.Try(t, c, "k", lockpipe.WithAutoExtend(time.Hour))
		for range 2 * 60 { // an entry lasts for some ten minutes
			time.Sleep(10 * time.Second)
			require.True(t, kit.AllUp(c), "%v", c.Nodes())
		}
		require.NoError(t, l.Err())
		require.NoError(t, l.Release(t.Context()))
	})
}

// The goal: the error of a node that was not connected within DialTimeout says how long each step
// took, and which one was not over.
func TestDialTimeout_TheErrorSaysWhatTookHowLong(t *testing.T) {
	t.Parallel()
	mute := func() net.Conn {
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		return client
	}
	for want, takes := range map[string]time.Duration{
		"Config.Dial is not over after 2s":                         time.Minute,
		"Config.Dial took 500ms, the login is not over after 1.5s": 500 * time.Millisecond,
	} {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			select {
			case <-time.After(takes):
				return mute(), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		synctest.Test(t, func(t *testing.T) {
			c, err := lockpipe.New(lockpipe.Config{
				Nodes: []string{"db.example"}, Dial: dial, DialTimeout: 2 * time.Second,
				Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close(t.Context())) }()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.ErrorContains(t, c.Nodes()[0].Err, "not connected within 2s: ")
			require.ErrorContains(t, c.Nodes()[0].Err, want)
			all, err := c.Inspect(t.Context())
			require.NoError(t, err)
			finds(t, all, "db.example:6379", lockpipe.SeverityError, "can't be used")
		})
	}
}
