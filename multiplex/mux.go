// Package multiplex sends the attempts of many callers to N independent masters over exactly one
// socket each, and decides each attempt by the votes of the nodes. Package node has what each of
// them is sent and answers.
package multiplex

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/cluster"
	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/holders"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/lockpipe/lockpipe/internal/stats"
)

const (
	// connectAtClose is how long Close waits for a node that is owed a release, and is being
	// connected or answers with errors.
	connectAtClose = time.Second
	pauseAtClose   = 100 * time.Millisecond // until Close sends such a node the release again
)

// Config says which masters a Mux works with. The caller has checked the durations and the systems.
type Config struct {
	// Nodes are 1 to quorum.MaxNodes different masters.
	Nodes []*endpoint.Endpoint
	// Systems are the quorum systems, 256 at most. Each is a list of sets of these nodes. A claim
	// needs a quorum of each set, and its keys are on no other nodes. Two claims exclude each other
	// if their systems share a set. nil: one system, and all nodes are its only set.
	Systems [][]quorum.Nodes
	// NodeTimeout is how long an attempt waits for any one node, at most.
	NodeTimeout time.Duration
	// TTL is the usual TTL. It only saves work.
	TTL time.Duration
	// MaxTTL is the longest TTL. After it a release is of no use any more.
	MaxTTL time.Duration
	// Prefix is put before the names of the keys that the restart guard sets on each node. Claims
	// have a prefix of their own.
	Prefix string
	// Guard says which servers may vote.
	Guard guard.Mode
	// Fleet leaves on each node which layouts the client uses, and reads those of others. Several
	// Muxes of one client share it. It is required.
	Fleet *fleet.Fleet
	// Dial opens connections; nil for a net.Dialer. See endpoint.DialFunc.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Credentials returns the user and password for a node, and those of its URL are not used; nil
	// for those of its URL. See endpoint.CredentialsFunc.
	Credentials func(ctx context.Context, node string) (user, password string, err error)
	// Logger logs changes of the nodes' states. It is required.
	Logger *slog.Logger
	// OnQuorumReachable is called after each change of a node's state after which QuorumReachable
	// is true. It is called from several goroutines, maybe before New has returned, and must not
	// block. It may be nil.
	OnQuorumReachable func()
	// OnAdmitted is called when a node votes again that had to wait. AllExtended reports whether
	// the owner has extended since then all that it extends: until then the node may lack keys.
	// Both must not block, and may be called before New has returned. Both may be nil.
	OnAdmitted  func()
	AllExtended func() bool
}

// Mux sends each attempt to all nodes of its claim at once and counts their votes.
//
// Invariants:
//
//  1. There is one socket to each node, and only its connector opens it.
//  2. Every node that a round is for is done with it once: it has answered all of it, or missed it,
//     or the vote on each attempt was recorded alone. The zero value of a vote never grants.
//  3. An attempt is decided once: as soon as the open votes cannot change the outcome, and at the
//     latest when the time to wait for the last node is over. Nothing that a node does later
//     changes an acquire or an extension.
//  4. The flushes run on no caller's context. A caller that leaves affects no other caller.
//  5. A node that may hold a token that nobody wants any more is sent its release, until it has
//     answered it or the key has expired there.
//  6. What a node misses may be newer than what it is still to read, if that is undecided. Of an
//     acquire or extension that it misses it has nothing. A release that it misses is owed to it,
//     and the connector sends that, maybe before the older rounds. So a trip with such a round
//     looks at each attempt (operation.Skip): nothing of a claim follows its release.
//
// Outline: Acquire, Extend and Release make an Attempt and append it to the log, which all nodes
// share (Claim.ask). The log seals rounds of what came together. A round is made into commands once
// (Mux.sealRound), and the writer of each node sends them (Mux.read). A node's answer to a round is
// one bit, except for votes that are no grants: these are recorded (Claim.record), on the goroutine
// that reads the node's connection. Callers wake together, when a quorum has answered their round
// (Mux.finish), and each counts its own votes.
//
// On each node the attempts of a claim take effect in the order in which they began: a newer one
// takes an older one out of a round that is not sealed, and is behind it otherwise. A node reads
// the log in order, and puts each trip into the line of its connection before it takes the next
// (Node.order). A connection that breaks leaves votes unknown, and releases that are sent again.
//
// Rejected:
//
//   - A queue for each node: each attempt was queued, made into commands and counted by each node.
//   - A goroutine or a context for each node and attempt: most of the cost of a naive client.
//   - One operation of a claim at a time on each node, kept by the claim: rueidis gives no order to
//     calls that are under way together. Package trip does.
//
// All methods are safe for concurrent use.
type Mux struct {
	cfg      Config
	ttlText  string
	nodes    []*node.Node
	systems  []quorum.System // of claims; set once
	log      *batch.Log[Attempt, roundState]
	lookout  lookout
	aliases  quorum.Aliases // of the nodes
	client   string         // its name in lines
	group    node.Group     // of the nodes
	peers    *guard.Peers
	clusters cluster.Clusters // of the nodes

	stop       context.CancelFunc // ends the connectors
	connectors sync.WaitGroup

	// Nodes that wait, or that may lack keys since: see Config.OnAdmitted.
	waited, lacking atomic.Uint64

	// begun: a quorum was connected at one moment. Before, no node is sent anything: see package
	// guard. beginning guards it while it is false, and ready: the nodes that could be sent things.
	begun     atomic.Bool
	beginning sync.Mutex
	ready     quorum.Nodes

	attempts, splitVotes atomic.Uint64 // to acquire
	asker                *holders.Asker
}

// New returns a Mux and starts to connect its nodes in the background. Its error is about
// cfg.Nodes, and begins with the index of the node in brackets.
func New(cfg Config) (*Mux, error) {
	if len(cfg.Systems) == 0 {
		cfg.Systems = [][]quorum.Nodes{{quorum.First(len(cfg.Nodes))}}
	}
	m := &Mux{
		cfg: cfg, ttlText: strconv.FormatInt(cfg.TTL.Milliseconds(), 10),
		peers: guard.NewPeers(len(cfg.Nodes), quorum.Distinct(cfg.Systems...)),
	}
	for _, sets := range cfg.Systems {
		m.systems = append(m.systems, quorum.NewSystem(sets...).CountOnce(&m.aliases))
	}
	client := new(ids.Tokens).Next()
	m.client = string(client[:nameLength])
	for i, e := range cfg.Nodes {
		n, err := m.newNode(i, e)
		if err != nil {
			for _, n := range m.nodes {
				n.Link.Close()
			}
			return nil, fmt.Errorf("[%d] is not usable: %w", i, err)
		}
		m.nodes = append(m.nodes, n)
	}
	m.asker = holders.New(m.Links())
	m.log = m.newLog()
	for i := range m.nodes {
		m.log.SetReader(i, readerState(link.Connecting))
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	for _, n := range m.nodes {
		m.connectors.Go(func() { n.Link.Run(ctx) })
	}
	return m, nil
}

// nameLength is how much of a token names the client in lines: what differs from client to client.
const nameLength = 11

// keysPerTimeout is for how many keys NodeTimeout is meant: about a fiftieth of what a node that
// has nothing else to do handles in the usual NodeTimeout.
const keysPerTimeout = 1000

// timeoutFor returns how long an attempt waits for a node that was given that many keys at once. It
// is at most MaxTTL: after that no attempt is of any use.
func (m *Mux) timeoutFor(keys int) time.Duration {
	times := 1 + (keys-1)/keysPerTimeout
	if times > 1 && int64(times) > int64(m.cfg.MaxTTL/m.cfg.NodeTimeout) {
		return m.cfg.MaxTTL
	}
	return m.cfg.NodeTimeout * time.Duration(times)
}

// Acquire starts one attempt to take all keys of a new claim on a quorum of nodes for ttl.
// batchKeys is the number of keys of all attempts that start together with it, its own included.
func (m *Mux) Acquire(c *Claim, ttl time.Duration, batchKeys int) *Attempt {
	m.attempts.Add(1)
	return m.submit(m.newAttempt(c, node.Acquire, ttl, m.timeoutFor(batchKeys), ttl/2))
}

// Extend starts one attempt to let all keys of the claim last for ttl from now. A key that lasts
// longer keeps its end; if ttl is shorter than an earlier one, the claim needs cleanup. A node that
// lacks some of the keys gets them again, but does not count for this attempt.
//
// It is not sent after sendBefore, when the lease may be over. The caller counts it only if the
// lease is still valid when Wait returns. Wait waits for NodeTimeout or for minTimeout, whichever
// is longer. Held says that the lease is lost. batchKeys is as in Acquire.
func (m *Mux) Extend(c *Claim, ttl time.Duration, sendBefore time.Time, minTimeout time.Duration,
	batchKeys int,
) *Attempt {
	a := m.newAttempt(c, node.Extend, ttl, max(m.timeoutFor(batchKeys), minTimeout), ttl/2)
	a.maxAge = min(a.maxAge, sendBefore.Sub(a.op.Sent))
	a.timeout = min(a.timeout, a.maxAge)
	return m.submit(a)
}

// Release starts to delete the claim's keys on every node that may have heard of it, if they still
// hold its token. It comes behind whatever is under way there. It is the claim's last attempt:
// releasing again returns the same one. It is Won when a quorum of nodes is known not to hold the
// token. batchKeys is as in Acquire.
func (m *Mux) Release(c *Claim, batchKeys int) *Attempt { return m.release(c, batchKeys, "") }

// release is Release, or Keep for this time in milliseconds.
func (m *Mux) release(c *Claim, batchKeys int, keep string) *Attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isReleased() {
		return c.latest
	}
	a := m.newAttempt(c, node.Release, 0, m.timeoutFor(batchKeys), m.cfg.MaxTTL)
	if a.op.TTL = keep; keep == "" && c.puts {
		a.op.TTL = node.PutBack
	}
	c.begin(a)
	nodes := a.system().Nodes()
	// Of an acquire that was never sent there is nothing to release.
	if (c.divided || c.may == 0) && !a.frees() {
		nodes = c.may
		a.neverHeld = a.system().Nodes() &^ nodes
	}
	c.ask(a, nodes)
	return a
}

// submit puts an acquire or an extension into the log.
func (m *Mux) submit(a *Attempt) *Attempt {
	c := a.claim
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isReleased() {
		// Another goroutine released meanwhile, and nothing may follow a release.
		a.voteUnknown(a.system().Nodes(), node.ErrSuperseded)
		return a
	}
	c.begin(a)
	c.ask(a, a.system().Nodes())
	return a
}

// Attempts returns how many attempts to acquire were sent since New, and how many of them failed
// because contenders divided the votes.
func (m *Mux) Attempts() (sent, splitVotes uint64) {
	return m.attempts.Load(), m.splitVotes.Load()
}

// all returns all nodes.
func (m *Mux) all() quorum.Nodes { return quorum.First(len(m.nodes)) }

// countUnsent counts an attempt that was not put into the log for these nodes.
func (m *Mux) countUnsent(nodes quorum.Nodes, why error) {
	reason := stats.FailedDown
	if why == batch.ErrOverloaded {
		reason = stats.FailedOverload
	}
	for ; nodes != 0; nodes &= nodes - 1 {
		m.nodes[nodes.Lowest()].Counts.Failures[reason].Add(1)
	}
}

// Peek asks every node who has these keys, given with their prefix: see holders.Asker.Ask.
func (m *Mux) Peek(ctx context.Context, keys, lines []string, enough func([]holders.Node) bool) (
	[]holders.Node, error,
) {
	return m.asker.Ask(ctx, keys, lines, m.timeoutFor(len(keys)), enough)
}

// Close refuses further attempts except releases, waits until the nodes have answered what is under
// way, and closes the sockets. If ctx ends before that, Close returns ctx's error, and closes in
// the background: within about three seconds if a node hangs. It may be called once.
func (m *Mux) Close(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.closeInOrder(ctx)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closeInOrder ends the connectors before it closes the clients: rueidis comes to life again when a
// dial ends after its Close.
func (m *Mux) closeInOrder(ctx context.Context) {
	_ = m.log.Close(ctx)
	m.resend(ctx)
	soon, cancel := context.WithTimeout(ctx, m.cfg.NodeTimeout)
	defer cancel()
	for _, n := range m.nodes {
		n.Lines.Close(soon) // others wait behind this client
	}
	m.stop()
	m.connectors.Wait()
	var nodes sync.WaitGroup
	for _, n := range m.nodes {
		nodes.Go(func() {
			n.Link.Close()
			n.Lines.Close(context.Background())
		})
	}
	nodes.Wait()
	_ = m.log.Close(context.Background()) // what was cut off ends now
}

// resend sends the releases that the nodes keep, before the connections are closed. It waits until
// the nodes that are connected have answered, or ctx ends. A node that is just being connected gets
// some time for that.
func (m *Mux) resend(ctx context.Context) {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		var nodes sync.WaitGroup
		for _, n := range m.nodes {
			nodes.Go(func() { resendTo(ctx, n) })
		}
		nodes.Wait()
	}()
	select {
	case <-answered:
	case <-ctx.Done():
	}
}

// resendTo sends one node the releases that it keeps, behind those that its connector sends it.
func resendTo(ctx context.Context, n *node.Node) {
	if n.Link.State().IsConnected() {
		n.Resend()
	}
	ctx, cancel := context.WithTimeout(ctx, connectAtClose)
	defer cancel()
	for pause := time.Duration(0); ; pause = pauseAtClose {
		if kept, _ := n.PendingReleases(); kept == 0 {
			return
		}
		select { // a connection that has just ended may still count as one
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if n.Link.AwaitConnected(ctx) != nil {
			return
		}
		n.Resend()
	}
}
