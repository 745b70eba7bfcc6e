package multiplex

import (
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/latency"
)

// NodeStats are counts about one node since New.
type NodeStats struct {
	// Flushes is the number of trips made to it, and Operations what they carried: each attempt and
	// each armed watch counts once.
	Flushes, Operations uint64
	// Latency is how long trips took, from when they were sent to the answer, or to the end of the
	// connection.
	Latency latency.Counts
	// Failures are operations without a vote, by the reason.
	Failures NodeFailures
	// Connects is how often the node came up, and Disconnects how often it did not stay so; at
	// Close it leaves as well.
	Connects, Disconnects uint64
}

// NodeFailures are numbers of operations for which a node has not voted: acquires, extensions and
// releases. One operation may fail more than once, for instance by a timeout and then by the
// connection.
type NodeFailures struct {
	// Timeout: the node owed an answer for too long, and the attempt was decided without it.
	Timeout uint64
	// Connection: it broke before the answer, or could not be used.
	Connection uint64
	// Down and Quarantined: nothing was sent, because the node was not connected, or may not vote
	// yet.
	Down, Quarantined uint64
	// Server: it answered with an error, such as READONLY, OOM, NOPERM, BUSY or LOADING.
	Server uint64
	// Protocol: it answered what no Redis server does.
	Protocol uint64
	// DataLoss: the server was emptied, or the connection was made again, so that the answer could
	// not be relied on.
	DataLoss uint64
	// QueuedTooLong: it was not sent, because it had waited behind others until its outcome was of
	// no use.
	QueuedTooLong uint64
	// Overloaded: it was not sent, because too many others waited.
	Overloaded uint64
}

// All gives each number with its reason, one lower-case word: the field's name, but "flushed" for
// DataLoss and "stale" for QueuedTooLong.
func (f NodeFailures) All() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		_ = yield("timeout", f.Timeout) && yield("connection", f.Connection) &&
			yield("down", f.Down) &&
			yield("quarantined", f.Quarantined) && yield("server", f.Server) &&
			yield("protocol", f.Protocol) &&
			yield("flushed", f.DataLoss) && yield("stale", f.QueuedTooLong) &&
			yield("overloaded", f.Overloaded)
	}
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

// meters count what one node does: for each flush and for each failure, never for each operation.
type meters struct {
	flushes, operations   atomic.Uint64 // made, and carried by them
	trips                 latency.Histogram
	failures              [failureCount]atomic.Uint64
	connects, disconnects atomic.Uint64
}

// fail counts a failure of so many operations.
func (m *meters) fail(f failure, operations int) { m.failures[f].Add(uint64(operations)) }

// count counts the failures among the answers of a trip.
func (m *meters) count(answers []answer) {
	for i := range answers {
		if answers[i].err != nil {
			m.fail(answers[i].failure(), 1)
		}
	}
}

// failure is why an operation that a flush took has no vote.
func (r *answer) failure() failure {
	var bad resp.ProtocolError
	switch {
	case r.err == errQueuedTooLong:
		return failedQueuedTooLong
	case r.err == errDataLoss:
		return failedDataLoss
	case errors.As(r.err, &bad):
		return failedProtocol
	case r.replied:
		return failedServer
	}
	return failedConnection
}

// unsent counts operations that were not handed to the node, or did not leave.
func (n *node) unsent(why error, operations int) {
	switch {
	case why == batch.ErrOverloaded:
		n.fail(failedOverload, operations)
	case NodeState(n.state.Load()) == NodeQuarantined:
		n.fail(failedQuarantined, operations)
	default:
		n.fail(failedDown, operations)
	}
}

// moved counts a change of the node's state.
func (m *meters) moved(before, after NodeState) {
	switch {
	case after.connected() == before.connected():
	case after.connected():
		m.connects.Add(1)
	default:
		m.disconnects.Add(1)
	}
}

// stats returns the counts, which are not taken at one moment.
func (m *meters) stats() NodeStats {
	of := func(f failure) uint64 { return m.failures[f].Load() }
	return NodeStats{
		Flushes: m.flushes.Load(), Operations: m.operations.Load(), Latency: m.trips.Counts(),
		Connects: m.connects.Load(), Disconnects: m.disconnects.Load(),
		Failures: NodeFailures{
			Timeout: of(failedTimeout), Connection: of(failedConnection), Down: of(failedDown),
			Quarantined: of(failedQuarantined),
			Server:      of(failedServer), Protocol: of(failedProtocol),
			DataLoss: of(failedDataLoss), QueuedTooLong: of(failedQueuedTooLong),
			Overloaded: of(failedOverload),
		},
	}
}

// leaves counts a flush that is sent now, and returns when that is.
func (m *meters) leaves(operations int) time.Time {
	m.flushes.Add(1)
	m.operations.Add(uint64(operations))
	return time.Now()
}
