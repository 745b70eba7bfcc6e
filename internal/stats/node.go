package stats

import (
	"sync/atomic"
	"time"
)

// Node counts what one node does: for each flush and for each failure, never for each operation.
// The zero value is ready. All methods are safe for concurrent use, and none of them blocks.
type Node struct {
	flushes, operations   atomic.Uint64 // made, and carried by them
	latency               Histogram     // of flushes
	failures              [nodeFailures]atomic.Uint64
	connects, disconnects atomic.Uint64
}

// NodeFailure is why a node has not voted.
type NodeFailure int

// The reasons.
const (
	FailedTimeout NodeFailure = iota
	FailedConnection
	FailedDown
	FailedQuarantined
	FailedServer
	FailedProtocol
	FailedDataLoss
	FailedQueuedTooLong
	FailedOverload
	nodeFailures
)

// NodeStats are counts about one node since New. lockpipe.NodeStats has the same fields, and says
// what they mean.
type NodeStats struct {
	Flushes, Operations   uint64
	Latency               Snapshot
	Failures              NodeFailures
	Connects, Disconnects uint64
}

// NodeFailures are numbers of operations for which a node has not voted, by the reason.
// lockpipe.NodeFailures has the same fields, and says what they mean.
type NodeFailures struct {
	Timeout           uint64
	Connection        uint64
	Down, Quarantined uint64
	Server            uint64
	Protocol          uint64
	DataLoss          uint64
	QueuedTooLong     uint64
	Overloaded        uint64
}

// CountFailure counts a failure of several operations.
func (n *Node) CountFailure(f NodeFailure, operations int) { n.failures[f].Add(uint64(operations)) }

// CountConnect counts a change between connected and not.
func (n *Node) CountConnect(connected bool) {
	if connected {
		n.connects.Add(1)
	} else {
		n.disconnects.Add(1)
	}
}

// FlushStarted counts a flush that is sent now, and returns the time.
func (n *Node) FlushStarted(operations int) time.Time {
	n.flushes.Add(1)
	n.operations.Add(uint64(operations))
	return time.Now()
}

// FlushEnded counts the time that a flush took.
func (n *Node) FlushEnded(took time.Duration) { n.latency.Observe(took) }

// Stats returns the counts. They are not taken at one moment.
func (n *Node) Stats() NodeStats {
	of := func(f NodeFailure) uint64 { return n.failures[f].Load() }
	return NodeStats{
		Flushes: n.flushes.Load(), Operations: n.operations.Load(), Latency: n.latency.Snapshot(),
		Connects: n.connects.Load(), Disconnects: n.disconnects.Load(),
		Failures: NodeFailures{
			Timeout: of(FailedTimeout), Connection: of(FailedConnection), Down: of(FailedDown),
			Quarantined: of(FailedQuarantined), Server: of(FailedServer),
			Protocol: of(FailedProtocol), DataLoss: of(FailedDataLoss),
			QueuedTooLong: of(FailedQueuedTooLong), Overloaded: of(FailedOverload),
		},
	}
}
