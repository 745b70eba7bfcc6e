package lockpipe_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

const (
	// prefix is before every key of the clients under test.
	prefix = "app:"
	// patient is how long a condition may take to come true on a machine that is busy with other
	// things. It is less than longTTL, so that what is gone was deleted and has not expired.
	patient = 20 * time.Second
	longTTL = 50 * time.Second
	// often is how often a condition is looked at.
	often = 10 * time.Millisecond
)

// newClient returns a client of the nodes whose calls never fail for being slow, unless change says
// so. It is closed with the test.
func newClient(t *testing.T, nodes *lockpipetest.Nodes,
	change ...func(*lockpipe.Config),
) *lockpipe.Client {
	t.Helper()
	cfg := config(nodes.URLs(), change)
	c, err := lockpipe.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = c.Close(ctx) // the nodes may be in any state by now
	})
	return c
}

// config is for calls that never fail for being slow, unless change says so.
func config(urls []string, change []func(*lockpipe.Config)) lockpipe.Config {
	cfg := lockpipe.Config{
		Nodes: urls, Prefix: prefix, TTL: longTTL, MaxTTL: time.Minute,
		NodeTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&cfg)
	}
	return cfg
}

// timeout changes how long an attempt waits for a node.
func timeout(d time.Duration) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) { cfg.NodeTimeout = d }
}

// connected waits until all nodes are up.
func connected(t *testing.T, c *lockpipe.Client) *lockpipe.Client {
	t.Helper()
	eventually(t, func() bool { return allUp(c) }, "a node does not come up")
	return c
}

func allUp(c *lockpipe.Client) bool {
	for _, n := range c.Nodes() {
		if n.State != lockpipe.NodeUp {
			return false
		}
	}
	return true
}

// down waits until the client knows that node i is down, and why. For a moment after a kill the
// reason may be another.
func down(t *testing.T, c *lockpipe.Client, i int, says string) {
	t.Helper()
	eventually(t, func() bool {
		n := c.Nodes()[i]
		return n.State == lockpipe.NodeDown && strings.Contains(n.Err.Error(), says)
	}, "node %d is not seen as down with %q", i, says)
}

func eventually(t *testing.T, condition func() bool, message string, args ...any) {
	t.Helper()
	require.Eventuallyf(t, condition, patient, often, message, args...)
}

// address is how errors and Nodes name node i.
func address(nodes *lockpipetest.Nodes, i int) string {
	return strings.TrimPrefix(nodes.URLs()[i], "redis://")
}

// span is the numbers from first to before end.
func span(first, end int) []int {
	var all []int
	for i := first; i < end; i++ {
		all = append(all, i)
	}
	return all
}

func addresses(nodes *lockpipetest.Nodes, which []int) []string {
	all := make([]string, len(which))
	for k, i := range which {
		all[k] = address(nodes, i)
	}
	return all
}

// try is TryAcquire that must succeed.
func try(t *testing.T, c *lockpipe.Client, key string, opts ...lockpipe.Option) *lockpipe.Lease {
	t.Helper()
	l, err := c.TryAcquire(t.Context(), key, opts...)
	require.NoError(t, err)
	return l
}

// take is Acquire that must succeed, where one attempt may be too short for a machine that is busy
// with other things.
func take(t *testing.T, c *lockpipe.Client, key string, opts ...lockpipe.Option) *lockpipe.Lease {
	t.Helper()
	l, err := c.Acquire(t.Context(), key, opts...)
	require.NoError(t, err)
	return l
}

// do sends a command that must succeed.
func do(t *testing.T, nodes *lockpipetest.Nodes, i int, args ...string) any {
	t.Helper()
	reply, err := nodes.Do(i, args...)
	require.NoError(t, err)
	return reply
}

// value is what the client's key has on node i; "" where it is not set.
func value(t *testing.T, nodes *lockpipetest.Nodes, i int, key string) string {
	t.Helper()
	v, _ := do(t, nodes, i, "GET", prefix+key).(string)
	return v
}

// onEvery waits until the key has the value on all of these nodes. "" stands for not set.
func onEvery(t *testing.T, nodes *lockpipetest.Nodes, which []int, key, want string) {
	t.Helper()
	for _, i := range which {
		eventually(t, func() bool {
			v, err := nodes.Do(i, "GET", prefix+key)
			got, _ := v.(string)
			return err == nil && got == want
		}, "node %d: key %s does not become %q", i, key, want)
	}
}

// nothingLeft waits until no key of the clients under test is on any of these nodes, all by
// default.
func nothingLeft(t *testing.T, nodes *lockpipetest.Nodes, which ...int) {
	t.Helper()
	if len(which) == 0 {
		which = span(0, nodes.Len())
	}
	for _, i := range which {
		var keys []string
		var err error
		ok := func() bool {
			keys, err = ownKeys(nodes, i)
			return err == nil && len(keys) == 0
		}
		if !poll(ok) {
			require.NoError(t, err)
			require.Emptyf(t, keys[:min(len(keys), 5)], "node %d still has keys, %d in all", i,
				len(keys))
		}
	}
}

// ownKeys leaves out the companions that a client keeps beside its locks.
func ownKeys(nodes *lockpipetest.Nodes, i int) ([]string, error) {
	keys, err := nodes.Keys(i, prefix)
	var own []string
	for _, k := range keys {
		if !strings.HasPrefix(k, prefix+"lockpipe:") {
			own = append(own, k)
		}
	}
	return own, err
}

// poll is eventually without an end of the test.
func poll(condition func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	tick := time.NewTicker(often)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// caughtUp returns when every node has executed what the client had sent it before: a later lease
// is seen on all of them.
func caughtUp(t *testing.T, c *lockpipe.Client, nodes *lockpipetest.Nodes) {
	t.Helper()
	n := 0
	ok := poll(func() bool {
		n++
		key := fmt.Sprintf("barrier:%d", n)
		l, err := c.TryAcquire(t.Context(), key)
		if err != nil {
			return false
		}
		defer func() { _ = l.Release(t.Context()) }()
		for i := range nodes.Len() {
			if v, err := nodes.Do(i, "GET", prefix+key); err != nil || v != l.Token() {
				return false
			}
		}
		return true
	})
	require.True(t, ok, "a node does not catch up")
}

// calls is how often node i has executed the command, whoever sent it, scripts included.
func calls(t *testing.T, nodes *lockpipetest.Nodes, i int, command string) int {
	t.Helper()
	info, _ := do(t, nodes, i, "INFO", "commandstats").(string)
	n := 0
	stats, called := resp.ParseInfo(info)["cmdstat_"+command] // calls=N,...
	if called {
		_, err := fmt.Sscanf(stats, "calls=%d", &n)
		require.NoError(t, err)
	}
	return n
}

// traffic is how many commands about locks all nodes have executed.
func traffic(t *testing.T, nodes *lockpipetest.Nodes) int {
	t.Helper()
	n := 0
	for i := range nodes.Len() {
		for _, command := range []string{"set", "evalsha", "eval", "del", "pexpire"} {
			n += calls(t, nodes, i, command)
		}
	}
	return n
}

// converse sends commands in the inline form over one connection to node i, and wants none to be
// answered with an error.
func converse(t *testing.T, nodes *lockpipetest.Nodes, i int, commands ...string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address(nodes, i), patient)
	require.NoError(t, err)
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for _, command := range commands {
		_, err := fmt.Fprintf(conn, "%s\r\n", command)
		require.NoError(t, err)
		line, err := answers.ReadString('\n')
		require.NoError(t, err)
		require.NotEqual(t, byte('-'), line[0], "%s: %s", command, line)
	}
}

// quorumError finds the details of a missing quorum, and checks what holds for all of them while
// the caller's ctx is alive.
func quorumError(t *testing.T, err error) *lockpipe.QuorumError {
	t.Helper()
	require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
	require.NotErrorIs(t, err, lockpipe.ErrHeld)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
	var q *lockpipe.QuorumError
	require.ErrorAs(t, err, &q)
	return q
}

// blames wants each of the nodes, and says somewhere in its error, in a missing quorum.
func blames(t *testing.T, err error, nodes *lockpipetest.Nodes, which []int, says string) {
	t.Helper()
	q := quorumError(t, err)
	named := map[string]error{}
	for _, n := range q.Nodes {
		require.NotContains(t, named, n.Node, "told twice")
		named[n.Node] = n.Err
	}
	for _, a := range addresses(nodes, which) {
		require.Contains(t, named, a)
		require.ErrorContains(t, named[a], says)
		require.ErrorContains(t, err, a)
	}
	require.Equal(t, nodes.Len()/2+1, q.Need)
	require.Equal(t, nodes.Len(), q.Granted+q.Refused+q.Unknown)
	require.Less(t, q.Granted, q.Need)
	require.Len(t, q.Nodes, q.Unknown)
}

// over wants a lease that has ended like this, in all that it tells.
func over(t *testing.T, l *lockpipe.Lease, cause error) {
	t.Helper()
	require.ErrorIs(t, l.Err(), cause)
	require.Zero(t, l.Until())
	select {
	case <-l.Done():
	default:
		require.Fail(t, "Done is open")
	}
	require.ErrorIs(t, context.Cause(l.Context()), cause)
	require.Error(t, l.Context().Err())
}

// lasting wants a lease that is still held.
func lasting(t *testing.T, l *lockpipe.Lease) {
	t.Helper()
	require.NoError(t, l.Err())
	require.NoError(t, l.Context().Err())
	require.True(t, l.Until().After(time.Now()), "Until is over")
}

// ended waits for the lease to end.
func ended(t *testing.T, l *lockpipe.Lease) {
	t.Helper()
	receive(t, l.Done(), "the lease does not end")
}

// receive takes what the channel gives, or its close.
func receive[T any](t *testing.T, c <-chan T, message string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patient):
		require.Fail(t, message)
	}
	panic("unreachable")
}

// later runs f on a goroutine of its own and gives its result.
func later[T any](f func() T) <-chan T {
	c := make(chan T, 1)
	go func() { c <- f() }()
	return c
}

// anyOf reports whether err is one of these.
func anyOf(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
