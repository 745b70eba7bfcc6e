// Package node is one master: what it is sent, and what it answers. Its owner, multiplex.Mux, has
// several nodes and counts their votes. A node knows nothing of the others.
//
// An Operation acquires, extends or releases the keys of one claim. A Flush carries operations in
// one trip over the node's link, and has one Answer for each. The owner makes the flushes as it
// reads its log. What it has made for all nodes, a Round, is sent as it is. Releases without an
// answer are kept, and the connector sends them in flushes of its own (Node.Resend).
//
// Operations take effect in the order of their flushes. Node.order is held from when a flush looks
// at its operations (Operation.Skip) until it is behind all earlier ones on the connection. What is
// sent once more does the same again. The answers are handled in that order too (line.go), mostly
// on the goroutine that reads the connection, but also on one that writes, or closes it.
//
// Node.order comes before all other locks: methods of Operation and Reading take the owner's locks
// while it is held. So the owner holds none when it calls Send, Resend or AddPending. Node.mu and
// that of the refused keys are leaves. No lock is held while a flush waits for its answers, or
// while these are recorded, but maybe the connection's turn to write.
package node

import (
	"context"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/line"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/stats"
)

// MaxFlush is the most keys in one flush, where long ones count as several. It is large enough that
// the cost of the trip no longer shows. It is small enough that a server answers all flushes under
// way well within the usual NodeTimeout.
const MaxFlush = 512

// Config says what a Node is.
type Config struct {
	// Link is the configuration of its Link. The Node sets the Owner.
	Link  link.Config
	Group *Group
	// Client is the client's name in lines, and Timeout is the NodeTimeout.
	Client  string
	Timeout time.Duration
	// TakeAnswers takes the answers of a flush of the log: of one after the other, in the order in
	// which they were sent. The flush belongs to the node again when it returns.
	TakeAnswers func(*Flush)
	// StateChanged takes each new state of the node. Both must not block: a connection waits.
	StateChanged func(link.State)
}

// Node is one master: the link to it, and what it is sent.
type Node struct {
	Link   *link.Link
	Lines  *line.Node
	Counts stats.Node

	// What makes a trip to the server, on the connection that there is. Tests set others before the
	// node is used.
	//
	// SendFlush sends operations, and has their answers handled later, as Flush.SendTo does.
	// Commands returns the newer commands that the node can use, if it is connected.
	SendFlush func(f *Flush)
	Commands  func() (set link.CommandSet, connected bool)

	index        int
	tag          string // of the keys on it; "" unless it is in a Redis Cluster
	group        *Group
	epoch        time.Time // when New was called
	takeAnswers  func(*Flush)
	stateChanged func(link.State)
	resending    chan struct{} // of capacity 1: Resend runs

	duties duties // owned by the connector

	acquireErrors acquireErrors

	// order is held while a trip is made and put behind the ones before: see the package comment.
	order sync.Mutex

	mu       sync.Mutex // guards all below; a leaf
	pending  pendingReleases
	line     []*Flush // whose answers were not handled, in the order in which they were sent
	handling bool     // a goroutine handles the first of them
	responsiveness
}

// New returns a Node without a connection. Node.Link.Run connects it.
func New(cfg Config) (n *Node, err error) {
	n = &Node{
		index: cfg.Link.Index, tag: cfg.Link.Endpoint.Tag, group: cfg.Group,
		resending: make(chan struct{}, 1), epoch: time.Now(),
		takeAnswers: cfg.TakeAnswers, stateChanged: cfg.StateChanged,
	}
	n.last = n.epoch
	n.acquireErrors.recheck = make(chan struct{}, 1)
	n.SendFlush, n.Commands = n.sendOperations, n.newerCommands
	cfg.Link.Owner = n
	n.Link, err = link.New(cfg.Link)
	n.Lines = line.NewNode(n.Link, &n.Counts, n.tag+cfg.Link.Prefix, cfg.Client, cfg.Timeout)
	return n, err
}

// Invalidated takes the keys that the server reports as changed.
func (n *Node) Invalidated(keys []string) { n.Lines.Invalidated(keys) }

// newerCommands is Commands of the connection that there is.
func (n *Node) newerCommands() (set link.CommandSet, connected bool) {
	return n.Link.Current().Commands(), n.Link.State().IsConnected()
}

// StateChanged takes a change of the link's state.
func (n *Node) StateChanged(before, after link.State) {
	if after == link.Up && before != link.Failing {
		n.fastest.Store(0)
	}
	if after.IsConnected() != before.IsConnected() {
		n.Counts.CountConnect(after.IsConnected())
	}
	n.stateChanged(after)
}

// Connected sends the releases that are kept, before anything else. Otherwise keys that only wait
// to be deleted would refuse acquires. Then the node reads: who sees that it is up may rely on it.
func (n *Node) Connected() {
	n.Resend()
	n.acquireErrors.since.Store(0)
	look := time.Now().Add(2 * probeDelay())
	n.duties = duties{review: look, look: look}
	n.stateChanged(link.Up)
}

// resendDelay is after what time a server that answers releases with errors is sent them again.
const resendDelay = 100 * time.Millisecond

// duties are the times at which the connector has something to do while a connection lasts.
type duties struct {
	review time.Time // a node that refuses acquires, or has taken a permission away
	look   time.Time // when it is to be probed in any case, for permissions
}

// Work does what is due, and returns after what time something is due again.
func (n *Node) Work(ctx context.Context) time.Duration {
	d, now := &n.duties, time.Now()
	select {
	case <-n.acquireErrors.recheck:
		d.review = now
	default:
	}
	resend, keeps := n.pendingDue()
	switch {
	case keeps && !resend.After(now):
		n.Resend()
		return 0
	case !d.review.After(now):
		again := n.review(ctx)
		d.review = time.Now().Add(again)
		return 0
	case keeps:
		return min(resend.Sub(now), d.review.Sub(now))
	}
	return d.review.Sub(now)
}
