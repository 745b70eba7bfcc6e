package locker

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
	"github.com/stretchr/testify/require"
)

const ttl = 20 * time.Second

// newLocker returns a Locker of these nodes, on a machine that was suspended for that long. dial
// may be nil.
func newLocker(t *testing.T, urls []string, suspended func(time.Time) time.Duration,
	dial func(ctx context.Context, network, address string) (net.Conn, error),
) *Locker {
	t.Helper()
	nodes, err := parts.Read(parts.Config{
		Config: multiplex.Config{
			NodeTimeout: 10 * time.Second, TTL: ttl, MaxTTL: ttl,
			Guard: guard.Off, Dial: dial, Logger: slog.New(slog.DiscardHandler),
		},
		Nodes: urls, Owner: "web-3:4711",
	})
	require.NoError(t, err)
	k, err := New(nodes, Config{
		Clock: lease.NewClock(suspended),
		VotesError: func(votes multiplex.Outcome) error {
			if votes.Result == multiplex.Won {
				return nil
			}
			return errors.New("not confirmed")
		},
		OnUnexpectedEnd: func(*Lease, error) {},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		k.BeginClose()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, _, _ = k.Close(ctx)
	})
	return k
}

// awake is a machine that was never suspended.
func awake(time.Time) time.Duration { return 0 }

// hangingDial is the Dial of a node that does not answer.
func hangingDial(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
