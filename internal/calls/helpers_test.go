package calls

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/callbacks"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/internal/stats"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/lockpipe/lockpipe/multiplex"
	"github.com/stretchr/testify/require"
)

const ttl = 10 * time.Second

// errFailed stands for the error of a call that failed.
var errFailed = errors.New("no lease")

// options returns those of a waiting call, with the defaults of the root package.
func options() *locker.Options {
	return &locker.Options{
		Kind: stats.Wait, TTL: ttl, MinDelay: 10 * time.Millisecond,
		MaxDelay: 60 * time.Millisecond,
	}
}

// newCalls returns the calls of a client of these nodes. dial may be nil.
func newCalls(t *testing.T, urls []string,
	dial func(ctx context.Context, network, address string) (net.Conn, error),
) *Calls {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	read, err := parts.Read(parts.Config{Nodes: urls, Config: multiplex.Config{
		NodeTimeout: 10 * time.Second, TTL: ttl, MaxTTL: ttl,
		Guard: guard.Off, Dial: dial, Logger: quiet,
	}})
	require.NoError(t, err)
	k, err := locker.New(read, locker.Config{
		Clock: lease.NewClock(nil), VotesError: votesError,
		OnUnexpectedEnd: func(*locker.Lease, error) {},
	})
	require.NoError(t, err)
	run := callbacks.New(quiet)
	c := New(k, run)
	t.Cleanup(func() {
		k.BeginClose()
		_, _, _ = k.Close(context.Background())
		run.Close()
	})
	return c
}

// unconnected returns the calls of a client whose only node does not answer.
func unconnected(t *testing.T) *Calls {
	t.Helper()
	hangs := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return newCalls(t, []string{"node:1"}, hangs)
}

// connectedTo returns the calls of a client that is connected to all nodes.
func connectedTo(t *testing.T, nodes *lockpipetest.Nodes) *Calls {
	t.Helper()
	c := newCalls(t, nodes.URLs(), nil)
	k := c.locker
	for {
		changed := k.NodesChanged()
		if k.Mux.Muxes[0].SpareNodes() == nodes.Len()/2 {
			return c
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Second):
			require.Fail(t, "a node does not come up")
		}
	}
}

// votesError returns an error unless a quorum granted.
func votesError(votes multiplex.Outcome) error {
	if votes.Result == multiplex.Won {
		return nil
	}
	return errFailed
}

// arbiterOf returns the number of the node that has the line for a key.
func arbiterOf(c *Calls, key string) (node int) {
	for c.locker.Mux.Muxes[0].Line(node) != c.locker.Mux.Arbiter(key, 0, 0) {
		node++
	}
	return node
}
