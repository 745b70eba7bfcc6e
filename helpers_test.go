package lockpipe_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
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

// skipIfShort skips a test that takes long, with -short. What it tests is not tested then.
func skipIfShort(t *testing.T, what string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short does not test " + what)
	}
}

// newClient returns a client of the nodes whose calls never fail for being slow, unless change says
// so. It is closed with the test.
func newClient(t *testing.T, nodes *lockpipetest.Nodes,
	change ...func(*lockpipe.Config),
) *lockpipe.Client {
	t.Helper()
	cfg := config(nodes.URLs(), change)
	c, err := lockpipe.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { closeSoon(c) })
	return c
}

// closeSoon closes a client whose nodes may be in any state.
func closeSoon(c *lockpipe.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = c.Close(ctx)
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

// connected waits until all nodes are up. If the machine stops one of them, or the client, for a
// second in their first use, that node is quarantined for MaxTTL.
func connected(t *testing.T, c *lockpipe.Client) *lockpipe.Client {
	t.Helper()
	for end := time.Now().Add(patient); !allUp(c); time.Sleep(often) {
		for _, n := range c.Nodes() {
			if n.State == lockpipe.NodeQuarantined && n.Until.Add(patient).After(end) {
				end = n.Until.Add(patient)
			}
		}
		require.True(t, time.Now().Before(end), "a node does not come up: %+v", c.Nodes())
	}
	return c
}

// allUp reports whether all nodes are connected. A server's second name has no vote of its own.
func allUp(c *lockpipe.Client) bool {
	for _, n := range c.Nodes() {
		second := n.Err != nil && strings.Contains(n.Err.Error(), "is the same server as")
		if n.State != lockpipe.NodeUp && !second {
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

// span is the numbers from first to before end.
func span(first, end int) []int {
	var all []int
	for i := first; i < end; i++ {
		all = append(all, i)
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

// lockedBuffer is a log for many goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// endingContext ends with err when done is closed: a deadline that the machine cannot miss.
type endingContext struct {
	context.Context
	done chan struct{}
	err  error
}

func (c *endingContext) Done() <-chan struct{} { return c.done }

func (c *endingContext) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

func logTo(b *lockedBuffer) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) { cfg.Logger = slog.New(slog.NewTextHandler(b, nil)) }
}

func linesWith(b *lockedBuffer, text string) (found []string) {
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// overwrite changes all that the memory of a slice has room for, as an append by its owner may.
func overwrite(s []string) {
	for i := range s[:cap(s)] {
		s[:cap(s)][i] = "changed"
	}
}
