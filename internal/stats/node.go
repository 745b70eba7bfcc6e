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
	failures              [Failures]atomic.Uint64
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
	Failures // how many reasons there are
)

// NodeStats are counts about one node since New: see lockpipe.NodeStats.
type NodeStats struct {
	Flushes, Operations   uint64
	Latency               Snapshot
	Failures              [Failures]uint64 // by the reason: see lockpipe.NodeFailures
	Connects, Disconnects uint64
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
	s := NodeStats{
		Flushes: n.flushes.Load(), Operations: n.operations.Load(), Latency: n.latency.Snapshot(),
		Connects: n.connects.Load(), Disconnects: n.disconnects.Load(),
	}
	for f := range s.Failures {
		s.Failures[f] = n.failures[f].Load()
	}
	return s
}
