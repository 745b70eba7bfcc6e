// Package lockpipe takes distributed locks on N independent Redis or Valkey masters by the Redlock
// algorithm, at the speed of a pipeline: one socket to each master, the operations of all
// concurrent callers grouped into few commands, and many keys in one round trip.
//
// A caller holds a Lease on one or more keys. A lease is granted by a quorum of the masters, N/2+1,
// and it ends: by Release, or when its time runs out on the local clock, which its Context tells.
// Package lockpipetest starts masters for tests.
package lockpipe

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/latency"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
	"github.com/lockpipe/lockpipe/waitroom"
)

// Client takes leases on one group of masters. It is made by New, and all methods are safe for
// concurrent use; one Client serves a whole process best, because its callers share their round
// trips.
type Client struct {
	cfg      Config
	reserved multiplex.Reserved // behind cfg.Prefix; set once
	mux      *multiplex.Mux
	leases   *lease.Manager
	tokens   sync.Pool // of *tokenSource

	rooms     waitroom.Table
	asyncs    asyncs
	outage    outage
	rivals    rivals
	fences    fences
	handovers atomic.Uint64
	callbacks callbacks
	losses    losses
	meters    meters

	// Acquiring and releasing calls under way; closedBit as well once Close began.
	calls  atomic.Int64
	closed chan struct{} // closed when Close begins
	idle   chan struct{} // closed when Close began and none of these calls is under way
	once   sync.Once     // of closing idle
	ended  chan struct{} // closed when Close is over
}

// closedBit marks Client.calls when nothing more is let in.
const closedBit = 1 << 62

// New returns a client of the masters in cfg. It does not wait for them: they are dialled in the
// background, also if all of them are down, and a call that comes before a node is connected waits
// for it as for an answer. An error is ErrInvalid and names the field of cfg. Close ends the
// client, and the goroutines and connections that it has.
func New(cfg Config) (*Client, error) {
	return newClient(cfg, suspended())
}

// newClient is New on a machine of which suspended says for how long it was suspended: see
// lease.Config.
func newClient(cfg Config, suspended func(now time.Time) time.Duration) (*Client, error) {
	cfg, err := cfg.validated()
	if err != nil {
		return nil, err
	}
	c := &Client{
		cfg: cfg, closed: make(chan struct{}), idle: make(chan struct{}),
		ended: make(chan struct{}),
	}
	c.reserved = multiplex.NewReserved(cfg.Prefix)
	c.fences.wall, c.fences.lead = time.Now, min(cfg.MaxTTL/leadParts, maxLead).Microseconds()
	c.callbacks.logger, c.losses.logger, c.losses.run = cfg.Logger, cfg.Logger, c.callbacks.run
	c.outage.logger = cfg.Logger
	c.outage.reachable = func() bool { return c.mux.QuorumReachable() }
	c.leases = lease.NewManager(lease.Config{
		Extend:    c.extend,
		Ready:     c.outage.reachable,
		Over:      c.meters.ended,
		Ended:     func(owner any, end error) { c.leaseEnded(owner.(*Lease), end) },
		Suspended: suspended,
	})
	c.mux, err = multiplex.New(multiplex.Config{
		Nodes: cfg.Nodes, NodeTimeout: cfg.NodeTimeout, TTL: cfg.TTL, MaxTTL: cfg.MaxTTL,
		TLS: cfg.TLS, Dial: cfg.Dial, Logger: cfg.Logger,
		Credentials: cfg.Credentials, Prefix: cfg.Prefix, Guard: cfg.RestartGuard,
		OnQuorumReachable: c.outage.wakeNext,
	})
	if err != nil {
		return nil, invalid("Config.Nodes%w", err)
	}
	return c, nil
}

// TryAcquire takes key, if nobody holds it, in one attempt of one round trip, and never waits for a
// holder. The error is ErrHeld, ErrNoQuorum, ErrOverloaded, ErrClosed or ErrInvalid; where ctx
// ended first, its error is found too. After any error nothing is held.
func (c *Client) TryAcquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	keys := [1]string{key}
	return c.try(ctx, keys[:], opts)
}

// TryAcquireAll is TryAcquire for many keys: all of them under one lease, or none. A key given
// twice counts once.
func (c *Client) TryAcquireAll(ctx context.Context, keys []string, opts ...Option) (*Lease, error) {
	return c.try(ctx, keys, opts)
}

// Acquire takes key and waits for it while another holds it or no quorum can be reached, until ctx
// ends. Then the error is ctx's error, and the reason of the last attempt, ErrHeld or ErrNoQuorum,
// is found as well. ErrOverloaded, ErrClosed and ErrInvalid come at once. After any error nothing
// is held. While too few nodes are connected for a quorum, a waiting call makes one attempt and
// then waits for the nodes. When they are back, such calls try in the order of arrival.
func (c *Client) Acquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	keys := [1]string{key}
	return c.wait(ctx, keys[:], opts)
}

// AcquireAll is Acquire for many keys: all of them under one lease, or none. While it waits it
// holds none of them, so calls whose keys overlap do not block each other for good. A key given
// twice counts once.
func (c *Client) AcquireAll(ctx context.Context, keys []string, opts ...Option) (*Lease, error) {
	return c.wait(ctx, keys, opts)
}

func (c *Client) try(ctx context.Context, keys []string, opts []Option) (*Lease, error) {
	l, err := c.tryOnce(ctx, keys, opts)
	if err != nil {
		c.meters.failed(callTry, err, 1)
	}
	return l, err
}

func (c *Client) tryOnce(ctx context.Context, keys []string, opts []Option) (*Lease, error) {
	keys, o, err := c.prepare(ctx, callTry, keys, opts)
	if err != nil {
		return nil, err
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	return c.attempt(ctx, keys, o)
}

// attempt is one try over all nodes, with a token of its own; with fencing, as many as the clock
// needs to catch up.
func (c *Client) attempt(ctx context.Context, keys []string, o call) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, errorf("%w", err)
	}
	for behind := (lag{}); ; {
		o.suspended = c.leases.Suspended()
		l := c.newLease(keys, behind.floor, o.numbers(c.awaited(keys, o)))
		a := c.mux.Acquire(l.claim, o.ttl, len(keys))
		held, err := c.granted(l, a, o, a.Wait(ctx, time.Time{}))
		if err == nil || !o.fencing {
			return held, err
		}
		again, wait := behind.after(a)
		if wait {
			// Unconfirmed, it is in the way at most.
			_ = c.mux.Release(l.claim, len(keys)).Wait(ctx, time.Time{})
		}
		if !again || ctx.Err() != nil {
			return nil, err
		}
	}
}

// granted begins the term of a lease where the outcome of its attempt is no error.
func (c *Client) granted(l *Lease, a *multiplex.Attempt, o call, outcome error) (*Lease, error) {
	if outcome != nil {
		select {
		case <-c.closed:
			outcome = errorf("%w: %w", ErrClosed, outcome)
		default:
		}
		c.meters.attempt(outcomeOf(outcome), time.Since(a.Sent()))
		return nil, outcome
	}
	grant := lease.Grant{Sent: a.Sent(), Suspended: o.suspended, TTL: o.ttl, MaxHold: o.maxHold}
	err := c.leases.Hold(&l.term, l, grant)
	if err == nil {
		c.meters.granted(&o, l.term.Began(), a.Sent())
		return l, nil
	}
	c.mux.Release(l.claim, l.claim.Len())
	if err != ErrExpired {
		c.meters.attempt(outcomeOf(err), time.Since(a.Sent()))
		return nil, err
	}
	c.meters.attempt(outcomeLate, time.Since(a.Sent()))
	passed := time.Since(a.Sent()) + c.leases.Suspended() - o.suspended
	return nil, errorf("%w: a quorum granted, but %v of the %v had passed", ErrNoQuorum, passed,
		o.ttl)
}

// enter lets an acquiring call in.
func (c *Client) enter() error {
	n := c.calls.Add(1)
	switch {
	case n&closedBit != 0:
		c.leave()
		return ErrClosed
	case n > maxPending:
		c.leave()
		return ErrOverloaded
	}
	return nil
}

func (c *Client) leave() {
	if c.calls.Add(-1) == closedBit {
		c.once.Do(func() { close(c.idle) })
	}
}

// Nodes returns what is known of each node now, in the order of Config.Nodes. It asks none of them,
// and does not block.
func (c *Client) Nodes() []NodeStatus { return c.mux.Nodes() }

// NodeStatus is what is known of one node.
type NodeStatus = multiplex.NodeStatus

// NodeStats are counts about one node, for NodeStatus: trips, how long they took, failures by their
// reason, connections.
type NodeStats = multiplex.NodeStats

// NodeFailures are numbers of operations for which a node has not voted, by the reason.
type NodeFailures = multiplex.NodeFailures

// NodeState is whether a node can vote.
type NodeState = multiplex.NodeState

// The states of a node. NodeConnecting: a connection is being made, and attempts wait for it, each
// within its limit. NodeUp: it votes. NodeQuarantined: it answers, but may have forgotten locks,
// and does not vote before NodeStatus.Until at the latest. NodeDown: the last try to connect
// failed, and further ones go on; attempts do not wait for it. NodeFailing: connected, but the node
// answers acquires with errors, such as OOM; they are still sent to it.
const (
	NodeConnecting  = multiplex.NodeConnecting
	NodeUp          = multiplex.NodeUp
	NodeQuarantined = multiplex.NodeQuarantined
	NodeDown        = multiplex.NodeDown
	NodeFailing     = multiplex.NodeFailing
)

// LatencyHistogram counts how long things took, in classes: NodeStats.Latency.
type LatencyHistogram = latency.Counts

// GuardMode is what the restart guard does: see Config.RestartGuard.
type GuardMode = multiplex.GuardMode

// The modes of the restart guard. GuardAuto: a node votes when a key on it, the marker, shows that
// it has forgotten nothing, or when MaxTTL has passed; masters that are all there and all without a
// marker are used for the first time, and vote at once. GuardStrict: these too wait for MaxTTL, and
// a server that does not tell its run_id is down. GuardOff: every server votes at once.
const (
	GuardAuto   = multiplex.GuardAuto
	GuardStrict = multiplex.GuardStrict
	GuardOff    = multiplex.GuardOff
)

// Close lets nobody in any more, releases everything that is held, and closes the connections.
// Leases end with ErrClosed, waiting calls fail with it. OnLost may still be told of leases that
// had ended before. Close returns when the nodes have answered, or when ctx ends: then the error
// tells what could not be confirmed as released, and the rest is cut off in the background, within
// about three seconds where a node hangs. A second Close waits for the first and is nil.
func (c *Client) Close(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	for {
		n := c.calls.Load()
		if n&closedBit != 0 {
			select {
			case <-c.ended:
			case <-ctx.Done():
			}
			return nil
		}
		if c.calls.CompareAndSwap(n, (n|closedBit)+1) {
			// One more: idle is not closed before every term has ended.
			break
		}
	}
	defer close(c.ended)
	close(c.closed)
	c.asyncs.signal()
	held := c.leases.Close()
	c.leave()
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
		if err := a.Wait(ctx, began); err != nil {
			failed = append(failed, errorf("release of %.64q not confirmed: %w",
				held[i].(*Lease).Key(), err))
		}
	}
	select { // a call that is under way ends within NodeTimeout, and releases what it got
	case <-c.idle:
	case <-ctx.Done():
	}
	err := c.mux.Close(ctx)
	c.losses.close()
	c.callbacks.close()
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
