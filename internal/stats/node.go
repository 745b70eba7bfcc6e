package stats

import (
	"sync/atomic"
	"time"
)

// Node counts what one node does: for each flush and for each failure, never for each operation.
// lockpipe.NodeStats has the same counts. The zero value is ready. Everything is safe for
// concurrent use, and nothing blocks.
type Node struct {
	Flushes, Operations   atomic.Uint64           // made, and carried by them
	Latency               Histogram               // of flushes
	Failures              [Failures]atomic.Uint64 // of operations, by the reason
	Connects, Disconnects atomic.Uint64
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

// CountConnect counts a change between connected and not.
func (n *Node) CountConnect(connected bool) {
	if connected {
		n.Connects.Add(1)
	} else {
		n.Disconnects.Add(1)
	}
}

// FlushStarted counts a flush that is sent now, and returns the time.
func (n *Node) FlushStarted(operations int) time.Time {
	n.Flushes.Add(1)
	n.Operations.Add(uint64(operations))
	return time.Now()
}
