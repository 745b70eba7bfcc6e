// Package multiplex sends the attempts of many callers to N independent masters over exactly one
// socket each, and decides each attempt by the votes of the nodes. It is the only package that
// imports rueidis.
package multiplex

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/restartguard"
	"github.com/lockpipe/lockpipe/internal/watch"
)

// Config says which masters a Mux works with. The caller has checked the durations.
type Config struct {
	// Nodes has one URL for each master, 1 to MaxNodes: redis://user:pass@host:6379/0, rediss://,
	// unix://, or host:port. A master by Sentinel is
	// redis://user:pass@sentinel:26379/0?addr=sentinel2:26379&master_set=name.
	Nodes []string
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
	Guard GuardMode
	// TLS is for rediss:// and for nodes given without a scheme; nil for the default of rediss://.
	TLS *tls.Config
	// Dial opens connections; nil for a net.Dialer. See DialFunc.
	Dial DialFunc
	// Credentials returns the user and password for a node; nil for those of its URL. See
	// CredentialsFunc.
	Credentials CredentialsFunc
	// Logger logs changes of the nodes' states. It is required.
	Logger *slog.Logger
	// OnQuorumReachable is called after each change of a node's state after which QuorumReachable
	// is true. It is called from several goroutines, maybe before New has returned, and must not
	// block. It may be nil.
	OnQuorumReachable func()
}

// Mux sends each attempt to all nodes at once and counts their votes.
//
// Invariants:
//
//  1. There is one socket to each node, and only its connector opens it.
//  2. Every attempt that a node was given is answered exactly once there: with a vote, or with an
//     unknown that says whether something may be left on the node. So every lane becomes free
//     again.
//  3. An attempt is decided once: as soon as the open votes cannot change the outcome, and at the
//     latest when the time to wait for the last node is over. Nothing that a node does later
//     changes an acquire or an extension.
//  4. The flushes run on no caller's context. A caller that leaves affects no other caller.
//  5. A node that may hold a token that nobody wants any more is sent its release, until it has
//     answered it or the key has expired there.
//
// Outline: Acquire, Extend and Release make an Attempt, put it on the claim's lanes
// (Claim.enqueueLanes) and give it to the nodes' pipelines (node.enqueue). A pipeline's flush
// (node.flush) makes commands of the attempts and answers of the replies. Each answer completes its
// lane (Claim.completeLane): it counts the vote, wakes the caller at the decision, and sends the
// attempt that waited for the lane.
//
// What lost:
//
//   - One lock for all attempts. It would be the only thing that callers on different keys share.
//   - A goroutine or a context for each node and attempt: most of the cost of a naive client.
//   - The order of the wire in place of lanes. rueidis gives no order to flushes that are under way
//     together, and a connection that breaks has none at all.
//
// All methods are safe for concurrent use.
type Mux struct {
	cfg     Config
	ttlText string
	nodes   []*node
	watches []*watch.Registry // of each node
	peers   *restartguard.Peers

	stop       context.CancelFunc // ends the connectors
	connectors sync.WaitGroup

	counts      counts
	inspections inspections

	// The pools belong to the Mux, because timers and channels belong to one synctest bubble.
	sleepers    sync.Pool // of *sleeper
	scratchPool sync.Pool // of *flushScratch
	attemptPool sync.Pool // of *Attempt: extensions that nothing refers to
}

// New returns a Mux and starts to connect its nodes in the background. Its error is about cfg.Nodes
// alone, and begins with the index of the node in brackets.
func New(cfg Config) (*Mux, error) {
	endpoints := make([]endpoint, len(cfg.Nodes))
	indexes := map[string]int{}
	for i, text := range cfg.Nodes {
		e, err := parse(text, cfg.TLS)
		if err != nil {
			return nil, fmt.Errorf("[%d] %w", i, err)
		}
		for _, key := range e.identities() {
			if first, twice := indexes[key]; twice {
				return nil, fmt.Errorf("[%d] is the same master as Nodes[%d] (%s): list each once",
					i, first, e.name)
			}
			indexes[key] = i
		}
		if o := &e.option; cfg.Credentials != nil && (o.Username != "" || o.Password != "") {
			return nil, fmt.Errorf("[%d] has a user or a password, and Config.Credentials is set: "+
				"leave one of the two out", i)
		}
		endpoints[i] = e
	}
	m := &Mux{
		cfg: cfg, ttlText: strconv.FormatInt(cfg.TTL.Milliseconds(), 10),
		peers: newPeers(endpoints),
	}
	for i, e := range endpoints {
		n, err := newNode(m, i, e)
		if err != nil {
			for _, n := range m.nodes {
				n.client.Close()
			}
			return nil, fmt.Errorf("[%d] is not usable: %w", i, err)
		}
		m.nodes, m.watches = append(m.nodes, n), append(m.watches, n.watches)
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	for _, n := range m.nodes {
		m.connectors.Go(func() { n.runConnector(ctx) })
	}
	return m, nil
}

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
	m.counts.attempts.Add(1)
	return m.submit(m.newAttempt(c, acquire, ttl, m.timeoutFor(batchKeys), ttl/2))
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
	a := m.newAttempt(c, extend, ttl, max(m.timeoutFor(batchKeys), minTimeout), ttl/2)
	a.maxAge = min(a.maxAge, sendBefore.Sub(a.sent))
	a.timeout = min(a.timeout, a.maxAge)
	return m.submit(a)
}

// Release starts to delete the claim's keys on every node that may have heard of it, if they still
// hold its token. It comes behind whatever is under way there. It is the claim's last attempt:
// releasing again returns the same one. It is Won when a quorum of nodes is known not to hold the
// token. batchKeys is as in Acquire.
func (m *Mux) Release(c *Claim, batchKeys int) *Attempt {
	c.mu.Lock()
	last := c.latest
	// After unlock, an extension may be another lease's attempt already: see Attempt.Done.
	released := last != nil && last.kind == release
	c.mu.Unlock()
	if released {
		return last
	}
	return m.submit(m.newAttempt(c, release, 0, m.timeoutFor(batchKeys), m.cfg.MaxTTL))
}

// submit puts an attempt on its lanes and sends it to the nodes whose lanes were free.
func (m *Mux) submit(a *Attempt) *Attempt {
	c := a.claim
	c.mu.Lock()
	if last := c.latest; last != nil && last.kind == release {
		// Another goroutine released meanwhile, and nothing may follow a release.
		if a.kind != release {
			a.voteUnknown(allNodes(len(a.calls)), errSuperseded)
			last = a
		}
		c.mu.Unlock()
		return last
	}
	start := c.enqueueLanes(a)
	c.mu.Unlock()
	m.sendAll(a, start)
	return a
}

// sendAll gives an attempt to these nodes.
func (m *Mux) sendAll(a *Attempt, start nodeSet) {
	for ; start != 0; start &= start - 1 {
		m.send(a, start.first())
	}
}

// send gives an attempt to a node. If the node does not take it, the attempt that waits for the
// same lane is next.
func (m *Mux) send(a *Attempt, i int) {
	if err := m.nodes[i].enqueue(a); err != nil {
		m.nodes[i].countUnsent(err, 1)
		m.handleAnswer(a, i, answer{leftNothing: true, err: err})
	}
}

// handleAnswer takes the answer of one node to an attempt.
func (m *Mux) handleAnswer(a *Attempt, i int, r answer) {
	c, keep := a.claim, a.kind == release && r.vote != granted
	c.mu.Lock()
	next, start := c.completeLane(a, i, r)
	reusable := a.reusable()
	c.mu.Unlock() // from here on a may be reused, unless it is kept or sent on
	if keep {
		m.nodes[i].addPending(a)
	}
	m.sendAll(next, start)
	if reusable {
		m.recycle(a)
	}
}

// QuorumReachable reports whether enough nodes are connected, or being connected, for a quorum. A
// failing node counts: it still extends and releases, and only a new attempt shows for certain that
// it grants again. If it did not count, leases would end that it could extend. And a parked call
// could wait for a probe that the user may not send.
func (m *Mux) QuorumReachable() bool {
	n := 0
	for _, node := range m.nodes {
		if !NodeState(node.state.Load()).rejects() {
			n++
		}
	}
	return n >= quorum(len(m.nodes))
}

// SpareNodes returns how many nodes are up beyond a quorum. Below 0 no quorum can be reached now.
func (m *Mux) SpareNodes() int {
	n := 0
	for _, node := range m.nodes {
		if NodeState(node.state.Load()) == NodeUp {
			n++
		}
	}
	return n - quorum(len(m.nodes))
}

// Nodes returns the state of each node, in configuration order.
func (m *Mux) Nodes() []NodeStatus {
	all := make([]NodeStatus, len(m.nodes))
	for i, n := range m.nodes {
		all[i] = n.status()
	}
	return all
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
	var nodes sync.WaitGroup
	for _, n := range m.nodes {
		n.watches.Close() // their flush under way ends with the client
		nodes.Go(func() { _ = n.pipe.Close(ctx) })
	}
	nodes.Wait()
	m.stop()
	m.inspections.close()
	m.connectors.Wait()
	for _, n := range m.nodes {
		nodes.Go(func() {
			n.client.Close()
			_ = n.pipe.Close(context.Background()) // what was cut off ends now
			n.watches.Wait()
		})
	}
	nodes.Wait()
}
