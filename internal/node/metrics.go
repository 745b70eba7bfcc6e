package node

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/stats"
)

// Stats are counts about one node since New. lockpipe.NodeStats has the same fields, and says what
// they mean.
type Stats struct {
	Flushes, Operations   uint64
	Latency               stats.Snapshot
	Failures              Failures
	Connects, Disconnects uint64
}

// Failures are numbers of operations for which a node has not voted, by the reason.
// lockpipe.NodeFailures has the same fields, and says what they mean.
type Failures struct {
	Timeout           uint64
	Connection        uint64
	Down, Quarantined uint64
	Server            uint64
	Protocol          uint64
	DataLoss          uint64
	QueuedTooLong     uint64
	Overloaded        uint64
}

// failure is why a node has not voted.
type failure int

const (
	failedTimeout failure = iota
	failedConnection
	failedDown
	failedQuarantined
	failedServer
	failedProtocol
	failedDataLoss
	failedQueuedTooLong
	failedOverload
	failureCount
)

// metrics count what one node does: for each flush and for each failure, never for each operation.
type metrics struct {
	flushes, operations   atomic.Uint64 // made, and carried by them
	flushLatency          stats.Histogram
	failures              [failureCount]atomic.Uint64
	connects, disconnects atomic.Uint64
}

// countFailure counts a failure of several operations.
func (m *metrics) countFailure(f failure, operations int) { m.failures[f].Add(uint64(operations)) }

// countFailures counts the failures among the answers of a flush.
func (m *metrics) countFailures(answers []Answer) {
	for i := range answers {
		if err := answers[i].Err; err != nil && err != ErrSuperseded && err != ErrNotNeeded {
			m.countFailure(answers[i].failureKind(), 1)
		}
	}
}

// failureKind returns why an operation that a flush carried has no vote.
func (r *Answer) failureKind() failure {
	var bad resp.ProtocolError
	switch {
	case r.Err == ErrQueuedTooLong:
		return failedQueuedTooLong
	case r.Err == link.ErrDataLoss:
		return failedDataLoss
	case errors.As(r.Err, &bad):
		return failedProtocol
	case r.Replied:
		return failedServer
	}
	return failedConnection
}

// CountTimeout counts an operation that the node has not answered in time.
func (n *Node) CountTimeout() { n.metrics.countFailure(failedTimeout, 1) }

// CountUnsent counts an operation that was never to be sent: too many wait, or the client is
// closed.
func (n *Node) CountUnsent(overloaded bool) {
	if overloaded {
		n.metrics.countFailure(failedOverload, 1)
	} else {
		n.metrics.countFailure(failedDown, 1)
	}
}

// CountMissed counts operations in rounds that the node has missed.
func (n *Node) CountMissed(down bool, operations int) {
	switch {
	case !down:
		n.metrics.countFailure(failedQueuedTooLong, operations)
	case n.Link.State() == link.Quarantined:
		n.metrics.countFailure(failedQuarantined, operations)
	default:
		n.metrics.countFailure(failedDown, operations)
	}
}

// countTransition counts a change of the node's state.
func (m *metrics) countTransition(before, after link.State) {
	switch {
	case after.IsConnected() == before.IsConnected():
	case after.IsConnected():
		m.connects.Add(1)
	default:
		m.disconnects.Add(1)
	}
}

// Stats returns the counts. They are not taken at one moment.
func (n *Node) Stats() Stats {
	m := &n.metrics
	of := func(f failure) uint64 { return m.failures[f].Load() }
	return Stats{
		Flushes: m.flushes.Load(), Operations: m.operations.Load(),
		Latency:  m.flushLatency.Snapshot(),
		Connects: m.connects.Load(), Disconnects: m.disconnects.Load(),
		Failures: Failures{
			Timeout: of(failedTimeout), Connection: of(failedConnection), Down: of(failedDown),
			Quarantined: of(failedQuarantined),
			Server:      of(failedServer), Protocol: of(failedProtocol),
			DataLoss: of(failedDataLoss), QueuedTooLong: of(failedQueuedTooLong),
			Overloaded: of(failedOverload),
		},
	}
}

// Flushed returns how many flushes were made, and how many operations they carried.
func (n *Node) Flushed() (flushes, operations uint64) {
	return n.metrics.flushes.Load(), n.metrics.operations.Load()
}

// flushStarted counts a flush that is sent now, and returns the time.
func (m *metrics) flushStarted(operations int) time.Time {
	m.flushes.Add(1)
	m.operations.Add(uint64(operations))
	return time.Now()
}
