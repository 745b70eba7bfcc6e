package multiplex

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/watch"
)

const (
	// maxFlush is the most keys in one flush. It is large enough that the cost of the trip no
	// longer shows. It is small enough that a server answers all flushes under way well within the
	// usual NodeTimeout.
	maxFlush = 512
	// maxPending is the most acquires that wait for one node. That is far more than can come during
	// its answer time, and takes about a hundred megabytes.
	maxPending = 1 << 18
)

// NodeState says whether a node can vote.
type NodeState = link.State

// The states of a node: see link.State. A node is failing if it has answered acquires with errors,
// such as OOM, MISCONF or NOPERM, has granted none for a second, and has refused a probe too. It is
// still sent all that it would be sent if it were up. It is up again when it grants an acquire or
// executes a probe.
const (
	NodeConnecting  = link.Connecting
	NodeUp          = link.Up
	NodeQuarantined = link.Quarantined
	NodeDown        = link.Down
	NodeFailing     = link.Failing
)

// NodeStatus is what the client knows of one node.
type NodeStatus struct {
	// Addr is host:port or the path of a socket, without user and password. For a master by
	// Sentinel it is the master set and the first sentinel: mymaster@host:26379.
	Addr  string
	State NodeState
	// Until is when a quarantine ends, at the latest. It ends earlier if another client, which saw
	// the node before, lifts it. It is zero in every other state.
	Until time.Time
	// Err is why the node is down, quarantined or failing. It is nil in every other state.
	Err error
	// Pending is how many attempts wait to be sent to the node.
	Pending int
	// PendingReleases is how many releases are kept for the node until it can answer them.
	PendingReleases int
	// DroppedReleases counts releases that were kept for the node and then dropped, because their
	// keys had expired or too many were kept.
	DroppedReleases uint64
	// Stats are counts since New.
	Stats NodeStats
}

// node is one master: the link to it, and the reader of the log that sends it trips.
type node struct {
	addr  string
	mux   *Mux
	index int
	link  *link.Link

	// sendFlush sends attempts to the server and returns with the answers, on the connection that
	// there is.
	sendFlush func(f *flush)

	watches *watch.Registry
	// queryWatches does for watches what sendFlush does for attempts.
	queryWatches func(keys []string, replies []watch.Reply)
	// newer returns the newer commands that the node can use, if it is connected.
	newer func() (set link.CommandSet, connected bool)

	pendingAdded chan struct{} // of capacity 1: a release is kept

	duties duties // owned by the connector

	responsiveness responsiveness
	passedOver     atomic.Int64 // by responsiveness.now; see passOver
	rtt            rtt
	metrics        metrics
	acquireErrors  acquireErrors

	// order is held while a trip is made and put behind the ones before. It comes before claim.mu.
	order      sync.Mutex
	lastInLine *flush // guarded by order

	mu      sync.Mutex // guards all below; a leaf
	pending pendingReleases
}

func newNode(m *Mux, index int, e *endpoint.Endpoint) (*node, error) {
	n := &node{addr: e.Name, mux: m, index: index, pendingAdded: make(chan struct{}, 1)}
	n.responsiveness.epoch = time.Now()
	n.acquireErrors.recheck = make(chan struct{}, 1)
	n.sendFlush = n.sendAttempts
	n.queryWatches, n.newer = n.sendWatches, n.newerCommands
	n.watches = n.newWatches()
	cfg := &m.cfg
	var err error
	n.link, err = link.New(link.Config{
		Endpoint: e, Index: index, Peers: m.peers,
		Others: func(i int) *link.Link { return m.nodes[i].link },
		Guard:  cfg.Guard, Prefix: cfg.Prefix, MaxTTL: cfg.MaxTTL,
		Credentials: cfg.Credentials, Dial: cfg.Dial, Logger: cfg.Logger, Owner: n,
	})
	return n, err
}

// notify sends on a channel of capacity 1, if that is empty.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// readerState returns what becomes of the log at a node in this state.
func readerState(s NodeState) batch.ReaderState {
	switch {
	case s.Rejects():
		return batch.Out
	case s.IsConnected():
		return batch.Reading
	}
	return batch.Paused
}

// StateChanged lets the log know whether the node reads.
func (n *node) StateChanged(before, after NodeState) {
	if after == NodeUp && before != NodeFailing {
		n.rtt.reset()
	}
	n.metrics.countTransition(before, after)
	n.mux.log.SetReader(n.index, readerState(after))
	if m := n.mux; m.cfg.OnQuorumReachable != nil && m.QuorumReachable() {
		m.cfg.OnQuorumReachable()
	}
}

// Connected sends the releases that are kept, before anything else.
func (n *node) Connected() {
	n.resend()
	n.acquireErrors.since.Store(0)
	n.duties = duties{resend: time.Now().Add(resendDelay), review: time.Now().Add(probeEvery)}
}

// NotConnected drops the releases that are not needed any more.
func (n *node) NotConnected() { n.dropExpired() }

// resendDelay is after what time a server that answers releases with errors is sent them again.
const resendDelay = 100 * time.Millisecond

// duties are the times at which the connector has something to do while a connection lasts. A zero
// time is never.
type duties struct {
	resend time.Time // the releases that the server answered with errors
	review time.Time // a node that refuses acquires
}

// Work does what is due, and returns after what time something is due again.
func (n *node) Work(ctx context.Context) time.Duration {
	d, now := &n.duties, time.Now()
	select {
	case <-n.pendingAdded:
		if d.resend.IsZero() {
			d.resend = now.Add(resendDelay)
		}
	default:
	}
	select {
	case <-n.acquireErrors.recheck:
		d.review = now
	default:
	}
	due := func(at time.Time) bool { return !at.IsZero() && !at.After(now) }
	switch {
	case due(d.resend):
		d.resend = time.Time{}
		n.resend()
		return 0
	case due(d.review):
		d.review = time.Time{}
		if again := n.review(ctx); again > 0 {
			d.review = time.Now().Add(again)
		}
		return 0
	}
	var next time.Duration = math.MaxInt64
	for _, at := range [...]time.Time{d.resend, d.review} {
		if !at.IsZero() {
			next = min(next, max(0, at.Sub(now)))
		}
	}
	return next
}

func (n *node) status() NodeStatus {
	state, until, why := n.link.Status()
	n.mu.Lock()
	defer n.mu.Unlock()
	return NodeStatus{
		Addr: n.addr, State: state, Until: until, Err: why, Pending: n.mux.log.Waiting(n.index),
		PendingReleases: len(n.pending.list), DroppedReleases: n.pending.dropped,
		Stats: n.metrics.stats(),
	}
}
