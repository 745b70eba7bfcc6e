package lockpipe

import (
	"github.com/lockpipe/lockpipe/latency"
	"github.com/lockpipe/lockpipe/multiplex"
)

// Nodes returns what is known of each node now, in the order of Config.Nodes. It sends nothing and
// does not block.
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

// The states of a node:
//
//   - NodeConnecting: a connection is being made, and attempts wait for it, each within its limit.
//   - NodeUp: the node votes.
//   - NodeQuarantined: the node answers, but may have forgotten locks. It does not vote before
//     NodeStatus.Until at the latest.
//   - NodeDown: the last try to connect failed. The client keeps trying, and attempts do not wait
//     for the node.
//   - NodeFailing: the node is connected, but answers acquires with errors, such as OOM. The client
//     still sends them.
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

// The modes of the restart guard:
//
//   - GuardAuto: a node votes when a key on it, the marker, shows that it has forgotten nothing, or
//     when MaxTTL has passed. If all masters answer and none has a marker, this is their first use,
//     and they vote at once.
//   - GuardStrict: on first use the masters wait for MaxTTL too. A server that does not report its
//     run_id is down.
//   - GuardOff: every server votes at once.
const (
	GuardAuto   = multiplex.GuardAuto
	GuardStrict = multiplex.GuardStrict
	GuardOff    = multiplex.GuardOff
)
