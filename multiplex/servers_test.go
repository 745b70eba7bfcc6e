package multiplex

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// run is a run_id.
func run(digit string) string { return strings.Repeat(digit, 39) + "0" }

// redirect is a endpoint.DialFunc by which the name of node i leads to the server of node to[i];
// nowhere while that is negative.
func redirect(nodes *lockpipetest.Nodes, to []atomic.Int32) endpoint.DialFunc {
	return func(ctx context.Context, network, name string) (net.Conn, error) {
		for i, u := range nodes.URLs() {
			if strings.HasSuffix(u, name) {
				if to[i].Load() < 0 {
					return nil, errors.New("nowhere")
				}
				return new(net.Dialer).DialContext(ctx, network,
					strings.TrimPrefix(nodes.URLs()[to[i].Load()], "redis://"))
			}
		}
		return nil, errors.New("unknown")
	}
}

// The goal: a node whose name leads to another's server gets it when the other one has lost it, and
// knows when that was.
func TestServers_MoveWhenNamesChange(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	to := make([]atomic.Int32, 3)
	for i := range to {
		to[i].Store(int32(i))
	}
	m := start(t, nodes.URLs(), func(c *Config) { c.Dial = redirect(nodes, to) })
	up(t, m)
	to[0].Store(1)
	ask(t, nodes, 0, "CLIENT", "KILL", "TYPE", "normal")
	becomes(t, m, 0, NodeDown, "is the same server as")
	to[1].Store(-1)
	before := time.Now()
	ask(t, nodes, 1, "CLIENT", "KILL", "TYPE", "normal")
	becomes(t, m, 1, NodeDown, "nowhere")
	becomes(t, m, 0, NodeUp, "")
	require.WithinRange(t, m.nodes[0].Link.Current().MovedAt, before, time.Now())
	require.NoError(t, wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context()),
		"servers 1 and 2 are a quorum")
	to[1].Store(1)
	becomes(t, m, 1, NodeDown, "is the same server as")
}

// twoNames lets a user without these permissions in, and returns the URLs of the server under two
// names.
func twoNames(t *testing.T, nodes *lockpipetest.Nodes, without ...string) []string {
	t.Helper()
	ask(t, nodes, 0, append([]string{"ACL", "SETUSER", "u", "on", ">p", "+@all"}, without...)...)
	address := strings.TrimPrefix(nodes.URLs()[0], "redis://")
	return []string{"redis://u:p@" + address, "redis://u:p@" + strings.Replace(address, "127.0.0.1",
		"localhost", 1)}
}

// The goal: servers that do not show their run_id are told apart as well, if the user may write and
// read some key.
func TestServers_AreToldApartWithoutARunID(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	m := start(t, twoNames(t, nodes, "~*", "-info"), mode(GuardOff))
	require.Eventually(t, func() bool {
		var up, same int
		for _, n := range m.Nodes() {
			if n.State == NodeUp {
				up++
			} else if n.Err != nil && strings.Contains(n.Err.Error(), "is the same server as") {
				same++
			}
		}
		return up == 1 && same == 1
	}, patient, often)
	for range 20 { // neither of two names that are tried again and again gets the other's vote
		require.Negative(t, m.SpareNodes())
	}
	// The second name is tried again and again, so its key is there for a moment each time.
	require.Eventually(t, func() bool {
		keys, _ := ask(t, nodes, 0, "KEYS", "*").([]any)
		return len(keys) == 0
	}, patient, often, "the keys that told them apart are not deleted")
}

// The goal: servers that can't be told apart vote, and the log says so once for each node.
func TestServers_ThatCannotBeToldApartVoteWithAWarning(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	var log bytes.Buffer
	m := start(t, twoNames(t, nodes, "~locks:*", "-info"), func(c *Config) {
		c.Guard, c.Logger = GuardOff, slog.New(slog.NewTextHandler(&log, nil))
	})
	up(t, m)
	require.NoError(t, m.Close(t.Context()))
	require.Equal(t, 1, strings.Count(log.String(), "can't be told apart"), log.String())
}

// The goal: a node that hangs keeps no other from being told apart: it loses its connection, and
// has to prove itself.
func TestServers_DoNotWaitForANodeThatHangs(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 2)
	for i := range 2 {
		ask(t, nodes, i, "ACL", "SETUSER", "u", "on", ">p", "+@all", "~*", "-info")
	}
	to := make([]atomic.Int32, 2)
	to[1].Store(-1)
	var urls []string
	for _, u := range nodes.URLs() {
		urls = append(urls, strings.Replace(u, "redis://", "redis://u:p@", 1))
	}
	m := start(t, urls, func(c *Config) { c.Guard, c.Dial = GuardOff, redirect(nodes, to) })
	becomes(t, m, 0, NodeUp, "")
	hung := m.nodes[0].Link.Current()
	require.NoError(t, nodes.Freeze(0))
	to[1].Store(1)
	becomes(t, m, 1, NodeUp, "")
	require.True(t, hung.IsClosed())
	require.NoError(t, nodes.Thaw(0))
	up(t, m)
}
