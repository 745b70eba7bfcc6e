package lockpipe

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/callbacks"
	"github.com/lockpipe/lockpipe/internal/fenceclock"
	"github.com/lockpipe/lockpipe/internal/keyqueue"
	"github.com/lockpipe/lockpipe/internal/outage"
	"github.com/lockpipe/lockpipe/internal/reserved"
	"github.com/lockpipe/lockpipe/internal/suspension"
	"github.com/lockpipe/lockpipe/internal/token"
	"github.com/lockpipe/lockpipe/internal/waiting"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Client takes leases on one group of nodes. New makes it, and all methods are safe for concurrent
// use. One Client for a whole process is best, because its callers share their round trips.
type Client struct {
	cfg         Config
	reserved    reserved.Names // behind cfg.Prefix; set once
	mux         *multiplex.Mux
	arbiter     func(key string, skip int) (node int) // of waiting.Policy; set once
	tokenSuffix string                                // of each token: cfg.Owner; set once
	leases      *lease.Manager
	tokens      token.Source

	queue      keyqueue.Queue
	pools      keyqueue.Queue // of calls that want any of several keys: see poolOf
	asyncs     asyncCalls
	outage     *outage.Queue
	contention waiting.Contention
	fences     *fenceclock.Clock
	handovers  atomic.Uint64
	callbacks  *callbacks.Pool
	lossLog    lossLog
	outcomes   callOutcomes

	nodesChanged broadcast // wakes Ready

	// Acquiring and releasing calls under way; plus closingBit once Close has begun.
	calls     atomic.Int64
	closing   chan struct{} // closed when Close begins
	drained   chan struct{} // closed when Close has begun and none of these calls is under way
	drainOnce sync.Once     // closes drained
	closed    chan struct{} // closed when Close is over
}

// closingBit marks Client.calls when no more calls may begin.
const closingBit = 1 << 62

// New returns a Client of cfg.Nodes. It does not wait for the nodes: the Client dials in the
// background, even if all of them are down. A call that comes before a node is connected waits for
// the connection as for an answer. An error is ErrInvalid and names the field of cfg. Close ends
// the client with its goroutines and connections.
func New(cfg Config) (*Client, error) {
	return newClient(cfg, suspension.Counter())
}

// newClient is New on a machine whose time in suspension is what suspended returns: see
// lease.Config.
func newClient(cfg Config, suspended func(now time.Time) time.Duration) (*Client, error) {
	cfg, err := cfg.validated()
	if err != nil {
		return nil, err
	}
	c := &Client{
		cfg: cfg, closing: make(chan struct{}), drained: make(chan struct{}),
		closed: make(chan struct{}),
	}
	c.reserved, c.tokenSuffix = reserved.New(cfg.Prefix), token.Suffix(cfg.Owner)
	c.fences = fenceclock.New(time.Now, cfg.MaxTTL, multiplex.MaxFence)
	c.callbacks = callbacks.New(cfg.Logger)
	c.lossLog.logger, c.lossLog.run = cfg.Logger, c.callbacks.TryRun
	reachable := func() bool { return c.mux.QuorumReachable() }
	c.outage = outage.New(reachable, cfg.Logger)
	c.arbiter = func(key string, skip int) int { return c.mux.Arbiter(cfg.Prefix+key, skip) }
	c.leases = lease.NewManager(lease.Config{
		Extend:          c.extendBatch,
		QuorumReachable: reachable,
		OnEnd:           c.outcomes.ended,
		OnUnexpectedEnd: func(owner any, end error) { c.leaseEnded(owner.(*Lease), end) },
		Suspended:       suspended,
	})
	c.mux, err = multiplex.New(multiplex.Config{
		Nodes: cfg.Nodes, NodeTimeout: cfg.NodeTimeout, TTL: cfg.TTL, MaxTTL: cfg.MaxTTL,
		TLS: cfg.TLS, Dial: cfg.Dial, Logger: cfg.Logger,
		Credentials: cfg.Credentials, Prefix: cfg.Prefix,
		Guard:             multiplex.GuardMode(cfg.RestartGuard),
		Layouts:           cfg.layouts(),
		OnQuorumReachable: c.quorumReachable,
	})
	if err != nil {
		return nil, invalid("Config.Nodes%w", err)
	}
	return c, nil
}

// beginCall counts an acquiring call in, or says why it may not begin.
func (c *Client) beginCall() error {
	n := c.calls.Add(1)
	switch {
	case n&closingBit != 0:
		c.endCall()
		return ErrClosed
	case n > maxPending:
		c.endCall()
		return ErrOverloaded
	}
	return nil
}

// endCall counts a call out. The last one lets Close continue.
func (c *Client) endCall() {
	if c.calls.Add(-1) == closingBit {
		c.drainOnce.Do(func() { close(c.drained) })
	}
}

// isClosing reports whether Close has begun.
func (c *Client) isClosing() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// Close refuses new calls, releases everything that is held, and closes the connections. Leases end
// with ErrClosed, and waiting calls return it. OnLost may still be called for leases that had ended
// before. Close returns when the nodes have answered, or when ctx ends. If ctx ends first, the
// error names the releases that were not confirmed. The Client then cuts the connections in the
// background, within about three seconds if a node hangs. A second Close waits for the first and
// returns nil.
func (c *Client) Close(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	for {
		n := c.calls.Load()
		if n&closingBit != 0 {
			select {
			case <-c.closed:
			case <-ctx.Done():
			}
			return nil
		}
		if c.calls.CompareAndSwap(n, (n|closingBit)+1) {
			// One more: drained must not be closed before every term has ended.
			break
		}
	}
	defer close(c.closed)
	close(c.closing)
	c.asyncs.signalAll()
	held := c.leases.Close()
	c.endCall()
	attempts := make([]*multiplex.Attempt, len(held))
	keys := 0
	for _, owner := range held {
		keys += owner.(*Lease).claim.Len()
	}
	for i, owner := range held {
		attempts[i] = c.mux.Release(owner.(*Lease).claim, keys)
	}
	failed := make([]error, 0)
	began := time.Now()
	for i, a := range attempts {
		if err := attemptError(a.Wait(ctx, began)); err != nil {
			failed = append(failed, errorf("release of %.64q not confirmed: %w",
				held[i].(*Lease).Key(), err))
		}
	}
	select { // a call under way ends within NodeTimeout, and releases what it was granted
	case <-c.drained:
	case <-ctx.Done():
	}
	err := c.mux.Close(ctx)
	c.lossLog.close()
	c.callbacks.Close()
	return closeError(failed, len(held), err)
}

// closeError names a few of the leases that could not be released.
func closeError(failed []error, held int, err error) error {
	const shown = 3
	switch {
	case len(failed) > shown:
		return errorf("%d of %d leases, such as: %w; %w; %w", len(failed), held, failed[0],
			failed[1], failed[2])
	case len(failed) > 0:
		return errorf("%d of %d leases: %w", len(failed), held, &joined{failed})
	case err != nil:
		return errorf("%w", err)
	}
	return nil
}
