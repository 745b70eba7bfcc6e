package multiplex

import (
	"math"
	"slices"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/line"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/lockpipe/lockpipe/internal/stats"
)

// NodeStatus is what the client knows of one node. lockpipe.NodeStatus has the same fields, and
// says what they mean.
type NodeStatus struct {
	Addr            string
	State           link.State
	Until           time.Time
	Err             error
	Pending         int
	PendingReleases int
	DroppedReleases uint64
	Counts          *stats.Node // of the node itself, which goes on counting
	// Lacking: the node votes again after a wait, and may still lack keys of leases.
	Lacking bool
}

// newNode returns the node with this index.
func (m *Mux) newNode(i int, e *endpoint.Endpoint) (*node.Node, error) {
	cfg := &m.cfg
	return node.New(node.Config{
		Link: link.Config{
			Endpoint: e, Index: i, Peers: m.peers, Fleet: cfg.Fleet,
			Guard: cfg.Guard, Prefix: cfg.Prefix, MaxTTL: cfg.MaxTTL, Clusters: &m.clusters,
			Credentials: cfg.Credentials, Dial: cfg.Dial, Logger: cfg.Logger,
		},
		Group: &m.group, Client: m.client, Timeout: cfg.NodeTimeout, TakeAnswers: m.takeAnswers,
		StateChanged: func(s link.State) { m.stateChanged(i, s) },
	})
}

// readerState returns what becomes of the log at a node in this state.
func readerState(s link.State) batch.ReaderState {
	switch {
	case s.Rejects():
		return batch.Out
	case s.IsConnected():
		return batch.Reading
	}
	return batch.Paused
}

// setReader lets the log know whether node i reads. When a quorum can for the first time, all that
// can begin at once.
func (m *Mux) setReader(i int, s batch.ReaderState) {
	if m.begun.Load() {
		m.log.SetReader(i, s)
		return
	}
	m.beginning.Lock()
	defer m.beginning.Unlock()
	if m.ready &^= quorum.Node(i); s == batch.Reading && !m.begun.Load() {
		m.ready |= quorum.Node(i)
		if s = batch.Paused; m.anyQuorum(m.ready) {
			for nodes := m.ready; nodes != 0; nodes &= nodes - 1 {
				m.log.SetReader(nodes.Lowest(), batch.Reading)
			}
			m.begun.Store(true)
			return
		}
	}
	m.log.SetReader(i, s)
}

// anyQuorum reports whether these nodes are a quorum of each set of some quorum system.
func (m *Mux) anyQuorum(nodes quorum.Nodes) bool {
	return slices.ContainsFunc(m.systems, func(s quorum.System) bool { return s.IsQuorum(nodes) })
}

// stateChanged takes a new state of node i.
func (m *Mux) stateChanged(i int, s link.State) {
	l := m.nodes[i].Link
	if c := l.Current(); c != nil && s.IsConnected() { // before the node is asked
		m.aliases.Set(i, c.Server.RunID, l.Tag() != "")
	}
	bit := uint64(quorum.Node(i))
	if s == link.Quarantined && m.cfg.OnAdmitted != nil {
		m.waited.Or(bit)
	}
	m.setReader(i, readerState(s))
	if s.IsConnected() && m.waited.Load()&bit != 0 {
		m.cfg.OnAdmitted() // now that the node reads: it is to be sent the extensions
		m.lacking.Or(bit)
		m.waited.And(^bit)
	}
	if m.cfg.OnQuorumReachable != nil && m.QuorumReachable() {
		m.cfg.OnQuorumReachable()
	}
}

// QuorumReachable reports whether enough nodes are connected, or being connected, for a quorum of
// each set of some quorum system. A failing node counts: it still extends and releases.
func (m *Mux) QuorumReachable() bool {
	return m.anyQuorum(m.nodesWhere(func(s link.State) bool { return !s.Rejects() }))
}

// CanGrant reports whether a quorum of some quorum system may grant: its nodes are reachable, and
// none is failing.
func (m *Mux) CanGrant() bool { return m.anyQuorum(m.nodesWhere(link.State.MayGrant)) }

// CanGrantIn is CanGrant for the quorum system at i in Config.Systems alone.
func (m *Mux) CanGrantIn(i uint8) bool {
	return m.systems[i].IsQuorum(m.nodesWhere(link.State.MayGrant))
}

// SpareNodes returns how many nodes are up beyond a quorum, in the set of any quorum system where
// they are fewest. Below 0 some claims can't get a quorum now.
func (m *Mux) SpareNodes() int {
	up, least := quorum.Nodes(0), math.MaxInt
	for i, n := range m.nodes {
		if s, _, _ := n.Link.Status(); s == link.Up { // not of a server that another node leads to
			up |= quorum.Node(i)
		}
	}
	for i := range m.systems {
		least = min(least, m.systems[i].Margin(up))
	}
	return least
}

// nodesWhere returns the nodes that are in such a state.
func (m *Mux) nodesWhere(is func(link.State) bool) (nodes quorum.Nodes) {
	for i, n := range m.nodes {
		if is(n.Link.State()) {
			nodes |= quorum.Node(i)
		}
	}
	return nodes
}

// Nodes returns the state of each node, in configuration order.
func (m *Mux) Nodes() []NodeStatus {
	all := make([]NodeStatus, len(m.nodes))
	for i, n := range m.nodes {
		s := &all[i]
		s.Addr, s.Pending, s.Counts = n.Link.Addr(), m.log.Waiting(i), &n.Counts
		s.State, s.Until, s.Err = n.Link.Status()
		s.Lacking = s.State.IsConnected() && m.lacks(i)
		s.PendingReleases, s.DroppedReleases = n.PendingReleases()
	}
	return all
}

// lacks reports whether a node may lack keys of leases since it waited.
func (m *Mux) lacks(i int) bool {
	bit, lacking := uint64(quorum.Node(i)), m.lacking.Load()
	switch {
	case m.waited.Load()&bit != 0:
	case lacking&bit == 0:
		return false
	case m.cfg.AllExtended():
		m.lacking.CompareAndSwap(lacking, 0) // unless another one came
		return false
	}
	return true
}

// Links returns the link to each node, in configuration order, for those that only look.
func (m *Mux) Links() (all []*link.Link) {
	for _, n := range m.nodes {
		all = append(all, n.Link)
	}
	return all
}

// Line returns node i as callers ask it about keys and lines.
func (m *Mux) Line(i int) *line.Node { return m.nodes[i].Lines }

// Has reports whether one of these nodes has this address.
func (m *Mux) Has(nodes quorum.Nodes, name string) bool {
	i := slices.IndexFunc(m.nodes, func(n *node.Node) bool { return n.Link.Name() == name })
	return i >= 0 && nodes.Has(i)
}
