package lockpipe

import (
	"context"
	"errors"
	"time"

	"github.com/lockpipe/lockpipe/internal/callbacks"
	"github.com/lockpipe/lockpipe/internal/calls"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/prefix"
	"github.com/lockpipe/lockpipe/internal/preflight"
	"github.com/lockpipe/lockpipe/internal/suspension"
	"github.com/lockpipe/lockpipe/lease"
)

// Client takes leases on the nodes of its Config. New makes it, and all methods are safe for
// concurrent use. One Client for a whole process is best, because its callers share their round
// trips.
type Client struct {
	cfg       Config
	reserved  ids.ReservedNames // behind cfg.Prefix; set once
	locker    *locker.Locker
	calls     *calls.Calls
	inspector *preflight.Inspector

	callbacks *callbacks.Pool
	closed    chan struct{} // closed when Close is over
}

// New returns a Client of the nodes in cfg. It does not wait for the nodes: the Client dials in the
// background, even if all of them are down. A call that comes before a node is connected waits for
// the connection as for an answer. An error is ErrInvalid and names the field of cfg. Close ends
// the client with its goroutines and connections.
func New(cfg Config) (*Client, error) {
	return newClient(cfg, suspension.Counter())
}

// newClient is New on a machine whose time in suspension is what suspended returns: see
// lease.NewClock.
func newClient(cfg Config, suspended func(now time.Time) time.Duration) (*Client, error) {
	cfg, nodes, err := cfg.read()
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, reserved: ids.NewReservedNames(cfg.Prefix), closed: make(chan struct{})}
	c.callbacks = callbacks.New(cfg.Logger)
	c.locker, err = locker.New(nodes, locker.Config{
		Clock: lease.NewClock(suspended), VotesError: votesError, OnUnexpectedEnd: c.leaseEnded,
	})
	if err != nil {
		return nil, invalid("%w", err)
	}
	c.calls = calls.New(c.locker, c.callbacks)
	c.inspector = preflight.New(nodes.ToInspect(c.locker.Mux))
	return c, nil
}

// GroupOf returns the name of the group that a key belongs to: of Config.Groups, also while the
// fleet moves to Config.Next. It is empty if Config.Nodes is set.
func (c *Client) GroupOf(key string) string { return c.locker.Mux.Layout.Group(key) }

// leaseEnded is called for each lease that was lost or expired.
func (c *Client) leaseEnded(l *locker.Lease, end error) {
	if errors.Is(end, ErrLost) {
		c.callbacks.LeaseLost(l.Key(), end)
	}
	if f := c.cfg.OnLost; f != nil {
		c.callbacks.TryRun(func() { f((*Lease)(l), end) })
	}
}

// Close refuses new calls, releases everything that is held, and closes the connections. Leases end
// with ErrClosed, and waiting calls return it. The functions of Do, DoAll and Elect come first:
// their contexts end at once with ErrClosed as the cause, and each keeps its lease until it
// returns. OnLost may still be called for leases that had ended before.
//
// Close returns when the functions have returned and the nodes have answered, or when ctx ends. So
// a function must not call Close. If ctx ends first, the error names the releases that were not
// confirmed, and says how many functions still run. Their keys stay locked for the rest of their
// TTL. The Client then cuts the connections in the background, within about three seconds if a node
// hangs. A second Close returns nil when the first has returned, or when its own ctx ends.
func (c *Client) Close(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if !c.locker.BeginClose() {
		select {
		case <-c.closed:
		case <-ctx.Done():
		}
		return nil
	}
	defer close(c.closed)
	failed, held, err := c.locker.Close(ctx)
	c.inspector.Close(ctx)
	c.callbacks.Close()
	return closeError(failed, held, err)
}

// closeError names a few of the leases that could not be released, and what else went wrong.
func closeError(failed []error, held int, err error) error {
	switch n := len(failed); {
	case n > 3:
		failed = []error{prefix.Errorf("%d of %d leases, such as: %w", n, held,
			prefix.Join(failed[:3]))}
	case n > 0:
		failed = []error{prefix.Errorf("%d of %d leases: %w", n, held, prefix.Join(failed))}
	}
	if err != nil && !errors.Is(prefix.Join(failed), err) { // else failed says it
		failed = append(failed, err)
	}
	return prefix.Join(failed)
}
