package lockpipe

import (
	"errors"
	"iter"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/stats"
)

// Nodes returns what is known of each node now, in the order of Config.Nodes, or of the
// groups. It sends nothing and does not block.
func (c *Client) Nodes() []NodeStatus {
	var all []NodeStatus
	nodes, groups := c.locker.Mux.Nodes()
	for i, n := range nodes {
		if n.Lacking {
			n.State, n.Until, n.Err = link.Quarantined, time.Now(), errLacking
		}
		of := func(f stats.NodeFailure) uint64 { return n.Counts.Failures[f].Load() }
		all = append(all, NodeStatus{
			Addr: n.Addr, Group: groups[i], State: NodeState(n.State), Until: n.Until, Err: n.Err,
			Pending: n.Pending, PendingReleases: n.PendingReleases,
			DroppedReleases: n.DroppedReleases,
			Stats: NodeStats{
				Flushes: n.Counts.Flushes.Load(), Operations: n.Counts.Operations.Load(),
				Latency:  LatencyHistogram{n.Counts.Latency.Snapshot()},
				Connects: n.Counts.Connects.Load(), Disconnects: n.Counts.Disconnects.Load(),
				Failures: NodeFailures{
					Timeout: of(stats.FailedTimeout), Connection: of(stats.FailedConnection),
					Down: of(stats.FailedDown), Quarantined: of(stats.FailedQuarantined),
					Server: of(stats.FailedServer), Protocol: of(stats.FailedProtocol),
					DataLoss: of(stats.FailedDataLoss), Overloaded: of(stats.FailedOverload),
					QueuedTooLong: of(stats.FailedQueuedTooLong),
				},
			},
		})
	}
	return all
}

// NodeStatus is what is known of one node.
type NodeStatus struct {
	// Addr is host:port or the path of a socket, without user and password. Of a master by Sentinel
	// it is the master set and the first sentinel: mymaster@host:26379. In a Redis Cluster it is
	// the slot and its owner.
	Addr string
	// Group is the name of its group; empty if Config.Nodes is set.
	Group string
	State NodeState
	// Until is when a quarantine ends, or a moment later, if enough other nodes answer and nothing
	// is lost again. At the first use of all nodes it ends at once. Otherwise it is zero.
	Until time.Time
	// Err is why the node is down, quarantined or failing; nil in every other state.
	Err error
	// Pending is the number of operations that wait to be sent to the node.
	Pending int
	// PendingReleases is how many releases are kept for the node until it can answer them.
	PendingReleases int
	// DroppedReleases counts those that were dropped: the keys had expired, or too many were kept.
	DroppedReleases uint64
	// Stats are counts since New.
	Stats NodeStats
}

// errLacking is why a node is not up yet that votes again after a wait.
var errLacking = errors.New("it votes again, and leases that are extended are being put on it")

// NodeState is whether a node can vote.
type NodeState int

// The states of a node:
//
//   - NodeConnecting: a connection is being made, and attempts wait for it, each within its limit.
//   - NodeUp: the node votes.
//   - NodeQuarantined: the node answers, but may have forgotten locks. It votes again after
//     NodeStatus.Until. It is up when the leases that this Client extends are on it again: who
//     restarts a node when every client shows all others up loses none of them.
//   - NodeDown: the last try to connect failed. The client keeps trying, and attempts do not wait
//     for the node.
//   - NodeFailing: the node is connected, but answers acquires with errors, such as OOM. The client
//     still sends them.
const (
	NodeConnecting  NodeState = NodeState(link.Connecting)
	NodeUp          NodeState = NodeState(link.Up)
	NodeQuarantined NodeState = NodeState(link.Quarantined)
	NodeDown        NodeState = NodeState(link.Down)
	NodeFailing     NodeState = NodeState(link.Failing)
)

// String returns the state as one lower-case word.
func (s NodeState) String() string { return link.State(s).String() }

// NodeStats are counts about one node since New.
type NodeStats struct {
	// Flushes is the number of flushes to the node, and Operations is what they carried: each
	// acquire, extension, release and watch of a key counts once.
	Flushes, Operations uint64
	// Latency is how long flushes took, from when they were sent to the answer, or to the end of
	// the connection.
	Latency LatencyHistogram
	// Failures are operations without a vote, by the reason.
	Failures NodeFailures
	// Connects is how often the node came up. Disconnects is how often it was up and was lost; the
	// end of the connection at Close counts too.
	Connects, Disconnects uint64
}

// NodeFailures are numbers of operations for which a node has not voted, by the reason: acquires,
// extensions and releases. One operation may fail more than once, for example by a timeout and then
// by the connection.
type NodeFailures struct {
	// Timeout: the node owed an answer for too long, and the attempt was decided without it.
	Timeout uint64
	// Connection: the connection broke before the answer, or could not be used.
	Connection uint64
	// Down and Quarantined: nothing was sent, because the node was not connected, or may not vote
	// yet.
	Down, Quarantined uint64
	// Server: the node answered with an error, such as READONLY, OOM, NOPERM, BUSY or LOADING.
	Server uint64
	// Protocol: the node answered what no Redis server does.
	Protocol uint64
	// DataLoss: the server was emptied, or the connection was made again, so that the answer could
	// not be relied on.
	DataLoss uint64
	// QueuedTooLong: the operation was not sent, because it had waited in the queue until its
	// outcome was of no use.
	QueuedTooLong uint64
	// Overloaded: the operation was not sent, because too many operations waited.
	Overloaded uint64
}

// All yields each number with its reason, one lower-case word: the field's name, but "flushed" for
// DataLoss and "stale" for QueuedTooLong.
func (f NodeFailures) All() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		_ = yield("timeout", f.Timeout) && yield("connection", f.Connection) &&
			yield("down", f.Down) && yield("quarantined", f.Quarantined) &&
			yield("server", f.Server) && yield("protocol", f.Protocol) &&
			yield("flushed", f.DataLoss) && yield("stale", f.QueuedTooLong) &&
			yield("overloaded", f.Overloaded)
	}
}

// GuardMode is what the restart guard does: see Config.RestartGuard.
type GuardMode int

// The modes of the restart guard:
//
//   - GuardAuto: a node votes if a key on it names the server's memory. A node that restarted or
//     lost its data has to wait first, for the longest MaxTTL of all clients. If all nodes answer
//     and none was ever admitted, this is their first use, and they vote at once. A server that
//     shows no run_id is admitted, with a warning in the log.
//   - GuardStrict: on first use the nodes wait too. A server that shows no run_id is down.
//   - GuardOff: every server votes at once, and the key is neither read nor written.
const (
	GuardAuto   GuardMode = GuardMode(guard.Auto)
	GuardStrict GuardMode = GuardMode(guard.Strict)
	GuardOff    GuardMode = GuardMode(guard.Off)
)

// String returns the mode as one lower-case word.
func (g GuardMode) String() string { return guard.Mode(g).String() }
