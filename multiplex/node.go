package multiplex

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/restartguard"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/lockpipe/lockpipe/internal/watch"
	"github.com/redis/rueidis"
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
type NodeState int

const (
	// NodeConnecting: the first connection, or the one after a loss, is being made. Attempts wait
	// for it, each within its timeout.
	NodeConnecting NodeState = iota
	// NodeUp: connected.
	NodeUp
	// NodeQuarantined: the node answers, but may have forgotten locks, because it has restarted,
	// was replaced or was flushed. Until these locks have expired nothing is sent to it, and its
	// vote is unknown at once. From time to time the client connects to read its marker. See
	// GuardMode.
	NodeQuarantined
	// NodeDown: the last try to connect failed. The client continues to try in the background. The
	// node's vote is unknown at once.
	NodeDown
	// NodeFailing: connected, but the node has answered acquires with errors, such as OOM, MISCONF
	// or NOPERM, has granted none for a second, and has refused a probe too. It is still sent all
	// that it would be sent if it were up. It is up again when it grants an acquire or executes a
	// probe.
	NodeFailing
)

// String returns the state as one lower-case word.
func (s NodeState) String() string {
	names := [...]string{"connecting", "up", "quarantined", "down", "failing"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("NodeState(%d)", int(s))
	}
	return names[s]
}

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

// node is one master: one rueidis client with one socket, and the connector.
type node struct {
	addr   string
	logins *logins // with passwords, which no error may show
	mux    *Mux
	index  int
	client rueidis.Client
	// placeholder is the command in whose place the connection sends a trip.
	placeholder rueidis.Completed
	// sendFlush sends attempts to the server and returns with the answers, on the connection that
	// there is.
	sendFlush func(f *flush)

	watches *watch.Registry
	// queryWatches does for watches what sendFlush does for attempts.
	queryWatches func(keys []string, replies []watch.Reply)

	active        activeConn
	disconnected  chan struct{} // of capacity 1: the connection was closed
	pendingAdded  chan struct{} // of capacity 1: a release is kept
	renewSoon     chan struct{} // of capacity 1: the generation is to be renewed
	disconnectAck chan struct{} // of capacity 1: rueidis is done with a connection

	endpoint  *endpoint  // does not change
	sentinels *sentinels // nil if the endpoint is the master's own
	inspector *dialer    // of the inspection under way

	ownProbeKey string // a key that this node alone sets

	// Owned by the connector:
	guard       *restartguard.Guard
	renewal     renewal
	warnedSame  bool // that its server may be another node's too
	dialer      *dialer
	permit      *dialPermit // of the last connection
	ackExpected bool        // rueidis will report the end of the last one
	mustProve   bool        // a server was useless: later connections are probed

	state          atomic.Int32 // a NodeState; written under mu
	responsiveness responsiveness
	passedOver     atomic.Int64 // by responsiveness.now; see passOver
	rtt            rtt
	metrics        metrics
	acquireErrors  acquireErrors

	// order is held while a trip is made and put behind the ones before. It comes before claim.mu.
	order      sync.Mutex
	lastInLine *flush // guarded by order

	mu          sync.Mutex    // guards all below; a leaf
	err         error         // why it is down, quarantined or failing, or its connection was lost
	connectDone chan struct{} // open while connecting
	causes      causes
	pending     pendingReleases
}

func newNode(m *Mux, index int, e endpoint) (*node, error) {
	n := &node{addr: e.name, endpoint: &e, mux: m, index: index, connectDone: make(chan struct{})}
	n.logins, n.sentinels = newLogins(&e, m), newSentinels(&e, m, n.leaveDeposed)
	n.dialer = newDialer(&e, m.cfg.Dial, m.cfg.Logger)
	n.inspector = newDialer(&e, m.cfg.Dial, m.cfg.Logger)
	n.inspector.calls.panicLogged = true // the connector's calls are
	n.disconnected = make(chan struct{}, 1)
	n.pendingAdded = make(chan struct{}, 1)
	n.disconnectAck = make(chan struct{}, 1)
	n.renewSoon = make(chan struct{}, 1)
	n.ownProbeKey = m.cfg.Prefix + probeKey + rand.Text()
	n.guard = n.newGuard()
	n.responsiveness.epoch = time.Now()
	n.acquireErrors.recheck = make(chan struct{}, 1)
	n.sendFlush = n.sendAttempts
	n.queryWatches = n.sendWatches
	n.watches = n.newWatches()
	hook := &dialHook{
		dialer: n.dialer, guard: n.guard, setup: n.setup,
		onConn: n.active.conn.Store, onClose: func() { notify(n.disconnected) },
		onInvalidate: n.onInvalidate,
	}
	var err error
	if n.client, err = hook.client(); err == nil {
		n.placeholder = n.client.B().Arbitrary(trip.Placeholder).Build().Pin()
	}
	return n, err
}

// hide returns the error without the node's passwords.
func (n *node) hide(err error) error { return n.logins.hide(err) }

// notify sends on a channel of capacity 1, if that is empty.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// rejects reports whether a node in this state is sent nothing.
func (s NodeState) rejects() bool { return s == NodeDown || s == NodeQuarantined }

// connected reports whether a node in this state has a connection that is in use.
func (s NodeState) connected() bool { return s == NodeUp || s == NodeFailing }

// reader returns what becomes of the log at a node in this state.
func (s NodeState) reader() batch.ReaderState {
	switch {
	case s.rejects():
		return batch.Out
	case s.connected():
		return batch.Reading
	}
	return batch.Paused
}

// down returns whether the node is down or quarantined, and why.
func (n *node) down() (why error, down bool) {
	if !NodeState(n.state.Load()).rejects() {
		return nil, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err, NodeState(n.state.Load()).rejects() // it may have come up meanwhile
}

// isDown reports whether the node is down, and not because it is quarantined.
func (n *node) isDown() bool { return NodeState(n.state.Load()) == NodeDown }

// awaitUp returns nil when the node is connected, at once or after the connect that is under way.
// Otherwise it returns why the node is down.
func (n *node) awaitUp() error {
	for !NodeState(n.state.Load()).connected() {
		n.mu.Lock()
		done := n.connectDone
		n.mu.Unlock()
		<-done
		if why, down := n.down(); down {
			return why
		}
	}
	return nil
}

// setState changes the state and logs it.
func (n *node) setState(s NodeState, err error) {
	n.mu.Lock()
	before := NodeState(n.state.Load())
	n.state.Store(int32(s))
	n.err = err
	if s == NodeUp && before != NodeFailing {
		n.rtt.reset()
	}
	n.metrics.countTransition(before, s)
	unlogged := n.causes.isNew(s, err)
	switch {
	case s == NodeConnecting:
		n.connectDone = make(chan struct{})
	case before == NodeConnecting:
		close(n.connectDone)
	}
	n.mu.Unlock()
	n.mux.log.SetReader(n.index, s.reader())
	if m := n.mux; m.cfg.OnQuorumReachable != nil && m.QuorumReachable() {
		m.cfg.OnQuorumReachable()
	}
	log := n.mux.cfg.Logger.With(slog.String("node", n.addr))
	if n.sentinels != nil {
		log = log.With(slog.String("master", n.sentinels.usedMaster()))
	}
	switch {
	case s == NodeUp:
		log.Info("lockpipe: node is up")
	case !unlogged || errors.Is(err, ErrClosed):
	case s == NodeConnecting:
		if err != nil {
			log = log.With(slog.Any("error", err))
		}
		log.Warn("lockpipe: connection to node lost")
	case s == NodeFailing:
		log.Warn("lockpipe: node is failing", slog.Any("error", err))
	case s == NodeQuarantined:
		log.Warn("lockpipe: node is quarantined", slog.Any("error", err))
	default:
		log.Warn("lockpipe: node is down", slog.Any("error", err))
	}
}

func (n *node) status() NodeStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := NodeStatus{
		Addr: n.addr, State: NodeState(n.state.Load()), Pending: n.mux.log.Waiting(n.index),
		PendingReleases: len(n.pending.list), DroppedReleases: n.pending.dropped,
		Stats: n.metrics.stats(),
	}
	if s.State.rejects() || s.State == NodeFailing {
		s.Err = n.err
	}
	var q *restartguard.Quarantine
	if errors.As(n.err, &q) {
		s.Until = q.Until
	}
	return s
}
