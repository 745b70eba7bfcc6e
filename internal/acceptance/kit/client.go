// Package kit is what the tests of lockpipe's public face share: nodes in a bubble or real ones,
// clients of them, calls, and what a test wants of these.
package kit

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
	// Prefix is before every key of the clients under test.
	Prefix = "app:"
	// Patient is how long a condition may take to come true on a machine that is busy with other
	// things. It is less than LongTTL, so that what is gone was deleted and has not expired.
	Patient = 20 * time.Second
	// LongTTL is the TTL of a client, unless its test changes it.
	LongTTL = 50 * time.Second
	// often is how often a condition is looked at.
	often = 10 * time.Millisecond
)

// SkipIfShort skips a test that takes long, with -short. What it tests is not tested then.
func SkipIfShort(t *testing.T, what string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short does not test " + what)
	}
}

// NewClient returns a client of the nodes whose calls never fail for being slow, unless change says
// so. It is closed with the test.
func NewClient(t *testing.T, nodes *lockpipetest.Nodes,
	change ...func(*lockpipe.Config),
) *lockpipe.Client {
	t.Helper()
	cfg := Config(nodes.URLs(), change)
	c, err := lockpipe.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { CloseSoon(c) })
	return c
}

// CloseSoon closes a client whose nodes may be in any state.
func CloseSoon(c *lockpipe.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

// Config is for calls that never fail for being slow, unless change says so.
func Config(urls []string, change []func(*lockpipe.Config)) lockpipe.Config {
	cfg := lockpipe.Config{
		Nodes: urls, Prefix: Prefix, TTL: LongTTL, MaxTTL: time.Minute,
		NodeTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&cfg)
	}
	return cfg
}

// Timeout changes how long an attempt waits for a node.
func Timeout(d time.Duration) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) { cfg.NodeTimeout = d }
}

// Connected waits until all nodes are up. If the machine stops one of them, or the client, for a
// second in their first use, that node is quarantined for MaxTTL.
func Connected(t *testing.T, c *lockpipe.Client) *lockpipe.Client {
	t.Helper()
	for end := time.Now().Add(Patient); !AllUp(c); time.Sleep(often) {
		for _, n := range c.Nodes() {
			if n.State == lockpipe.NodeQuarantined && n.Until.Add(Patient).After(end) {
				end = n.Until.Add(Patient)
			}
		}
		require.True(t, time.Now().Before(end), "a node does not come up: %+v", c.Nodes())
	}
	return c
}

// AllUp reports whether all nodes are connected. A server's second name has no vote of its own.
func AllUp(c *lockpipe.Client) bool {
	for _, n := range c.Nodes() {
		second := n.Err != nil && strings.Contains(n.Err.Error(), "is the same server as")
		if n.State != lockpipe.NodeUp && !second {
			return false
		}
	}
	return true
}

// Eventually waits until the condition holds, for as long as Patient says.
func Eventually(t *testing.T, condition func() bool, message string, args ...any) {
	t.Helper()
	require.Eventuallyf(t, condition, Patient, often, message, args...)
}

// Span is the numbers from first to before end.
func Span(first, end int) []int {
	var all []int
	for i := first; i < end; i++ {
		all = append(all, i)
	}
	return all
}

// Try is TryAcquire that must succeed.
func Try(t *testing.T, c *lockpipe.Client, key string, opts ...lockpipe.Option) *lockpipe.Lease {
	t.Helper()
	l, err := c.TryAcquire(t.Context(), key, opts...)
	require.NoError(t, err)
	return l
}

// Take is Acquire that must succeed, where one attempt may be too short for a machine that is busy
// with other things.
func Take(t *testing.T, c *lockpipe.Client, key string, opts ...lockpipe.Option) *lockpipe.Lease {
	t.Helper()
	l, err := c.Acquire(t.Context(), key, opts...)
	require.NoError(t, err)
	return l
}

// QuorumError finds the details of a missing quorum, and checks what holds for all of them while
// the caller's ctx is alive.
func QuorumError(t *testing.T, err error) *lockpipe.QuorumError {
	t.Helper()
	require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
	require.NotErrorIs(t, err, lockpipe.ErrHeld)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
	var q *lockpipe.QuorumError
	require.ErrorAs(t, err, &q)
	return q
}

// Blames wants each of the nodes, and says somewhere in its error, in a missing quorum.
func Blames(t *testing.T, err error, nodes *lockpipetest.Nodes, which []int, says string) {
	t.Helper()
	q := QuorumError(t, err)
	named := map[string]error{}
	for _, n := range q.Nodes {
		require.NotContains(t, named, n.Node, "told twice")
		named[n.Node] = n.Err
	}
	for _, a := range Addresses(nodes, which) {
		require.Contains(t, named, a)
		require.ErrorContains(t, named[a], says)
		require.ErrorContains(t, err, a)
	}
	require.Equal(t, nodes.Len()/2+1, q.Need)
	require.Equal(t, nodes.Len(), q.Granted+q.Refused+q.Unknown)
	require.Less(t, q.Granted, q.Need)
	require.Len(t, q.Nodes, q.Unknown)
}

// Over wants a lease that has ended like this, in all that it tells.
func Over(t *testing.T, l *lockpipe.Lease, cause error) {
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

// Lasting wants a lease that is still held.
func Lasting(t *testing.T, l *lockpipe.Lease) {
	t.Helper()
	require.NoError(t, l.Err())
	require.NoError(t, l.Context().Err())
	require.True(t, l.Until().After(time.Now()), "Until is over")
}

// Ended waits for the lease to end.
func Ended(t *testing.T, l *lockpipe.Lease) {
	t.Helper()
	Receive(t, l.Done(), "the lease does not end")
}

// Receive takes what the channel gives, or its close.
func Receive[T any](t *testing.T, c <-chan T, message string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(Patient):
		require.Fail(t, message)
	}
	panic("unreachable")
}

// Later runs f on a goroutine of its own and gives its result.
func Later[T any](f func() T) <-chan T {
	c := make(chan T, 1)
	go func() { c <- f() }()
	return c
}

// AnyOf reports whether err is one of these.
func AnyOf(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// LockedBuffer is a log for many goroutines.
type LockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

// Write is for a log.
func (b *LockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns what was written.
func (b *LockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// EndingContext ends when End is called: a deadline that the machine cannot miss.
type EndingContext struct {
	context.Context
	ended chan struct{}
	err   error
}

// NewEndingContext returns a context that ends with err, and no earlier.
func NewEndingContext(ctx context.Context, err error) *EndingContext {
	return &EndingContext{ctx, make(chan struct{}), err}
}

// End ends it.
func (c *EndingContext) End() { close(c.ended) }

// Done is closed when the context has ended.
func (c *EndingContext) Done() <-chan struct{} { return c.ended }

// Err returns the error once the context has ended.
func (c *EndingContext) Err() error {
	select {
	case <-c.ended:
		return c.err
	default:
		return nil
	}
}

// LogTo has a client write its log there.
func LogTo(b *LockedBuffer) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) { cfg.Logger = slog.New(slog.NewTextHandler(b, nil)) }
}

// LinesWith returns the lines of a log that contain the text.
func LinesWith(b *LockedBuffer, text string) (found []string) {
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}
