// Package metrics counts what the calls of a client come to, and writes all metrics of the client
// for Prometheus.
//
// Each metric is one row of a table: its name, what it means, its type and its labels. The number
// of time series depends on the number of nodes alone: no label has a key of a user.
//
// Counters counts by outcome. Each lock touches it a few times, so it has atomics only, and what
// follows from other counts is not counted: a call that makes just one attempt counts as a call.
// The other counts belong to the packages that count them, and the client hands them to a Writer.
package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockpipe/lockpipe/internal/histogram"
)

// Metric is a row of the table.
type Metric int

// The metrics that Counters does not count. Those that begin with Node have the address of the node
// as their first label.
const (
	SplitVotes Metric = iota
	LeasesHeld
	Handovers
	CallsPending
	Waiters
	AsyncPending
	CallbackPanics
	DroppedCallbacks
	SpareNodes
	NodeState // and the state
	NodeFlushes
	NodeOperations
	NodeFlushDuration
	NodeFailures // and the reason
	NodePendingOperations
	NodePendingReleases
	NodeDroppedReleases
	NodeConnects
	NodeDisconnects

	calls
	acquireDuration
	attempts
	attemptDuration
	leasesEnded
	holdDuration
	extensions
	releases
)

// kind is the type of a metric.
type kind int

const (
	counter kind = iota
	gauge
	duration // a histogram of seconds
)

// table has all metrics. docs/operations.md says what to do about each.
var table = [...]struct {
	name   string // behind lockpipe_
	kind   kind
	help   string
	labels []string
}{
	calls: {
		"calls_total", counter,
		"Acquiring calls that have returned, by kind and outcome.",
		[]string{"kind", "outcome"},
	},
	acquireDuration: {
		"acquire_duration_seconds", duration,
		"Time from an acquiring call to its lease, for those that got one.",
		[]string{"kind"},
	},
	attempts: {
		"attempts_total", counter,
		"Attempts to acquire over all nodes, by outcome.",
		[]string{"outcome"},
	},
	attemptDuration: {
		"attempt_duration_seconds", duration,
		"Time from before an attempt to acquire was sent to its outcome.", nil,
	},
	SplitVotes: {
		"split_votes_total", counter,
		"Attempts without a quorum whose votes were divided among contenders.", nil,
	},
	LeasesHeld: {"leases_held", gauge, "Leases that are held now.", nil},
	leasesEnded: {
		"leases_ended_total", counter,
		"Leases that are over, by how they ended.",
		[]string{"outcome"},
	},
	holdDuration: {
		"hold_duration_seconds", duration,
		"Time for which leases were held that are over.", nil,
	},
	extensions: {
		"extensions_total", counter,
		"Extensions of leases, by outcome.",
		[]string{"outcome"},
	},
	releases: {
		"releases_total", counter,
		"Calls to release a lease, by outcome.",
		[]string{"outcome"},
	},
	Handovers: {
		"handovers_total", counter,
		"Leases that went from one caller of the process to the next without a release.", nil,
	},
	CallsPending: {"calls_pending", gauge, "Calls that are under way now.", nil},
	Waiters: {
		"waiters", gauge,
		"Waiting calls that queue in the process for their keys now.", nil,
	},
	AsyncPending: {
		"async_pending", gauge,
		"Calls of AcquireAsync that are pending or wait for their function now.", nil,
	},
	CallbackPanics: {
		"callback_panics_total", counter,
		"Panics in functions given to OnLost and AcquireAsync.", nil,
	},
	DroppedCallbacks: {
		"onlost_dropped_total", counter,
		"Calls of OnLost that were dropped, because too many of them were waiting.", nil,
	},
	SpareNodes: {
		"spare_nodes", gauge,
		"Nodes that may still fail before no quorum can be reached; negative if none can.", nil,
	},
	NodeState: {
		"node_state", gauge,
		"1 for the state that the node is in, else 0.",
		[]string{"node", "state"},
	},
	NodeFlushes: {"node_flushes_total", counter, "Flushes to the node.", []string{"node"}},
	NodeOperations: {
		"node_operations_total", counter,
		"Operations that flushes to the node carried.",
		[]string{"node"},
	},
	NodeFlushDuration: {
		"node_flush_duration_seconds", duration,
		"Time from sending a flush to the answer of the node.",
		[]string{"node"},
	},
	NodeFailures: {
		"node_failures_total", counter,
		"Operations for which the node has not voted, by the reason.",
		[]string{"node", "kind"},
	},
	NodePendingOperations: {
		"node_pending_operations", gauge,
		"Operations that wait to be sent to the node now.",
		[]string{"node"},
	},
	NodePendingReleases: {
		"node_pending_releases", gauge,
		"Releases that wait now until the node can answer them.",
		[]string{"node"},
	},
	NodeDroppedReleases: {
		"node_dropped_releases_total", counter,
		"Kept releases that were dropped, because their keys had expired or too many were kept.",
		[]string{"node"},
	},
	NodeConnects: {
		"node_connects_total", counter,
		"How often the node came up.",
		[]string{"node"},
	},
	NodeDisconnects: {
		"node_disconnects_total", counter,
		"How often the node was up and was lost.",
		[]string{"node"},
	},
}

// descriptions has the rows of the table as Prometheus has them.
var descriptions = func() (all [len(table)]*prometheus.Desc) {
	for i, m := range table {
		all[i] = prometheus.NewDesc("lockpipe_"+m.name, m.help, m.labels, nil)
	}
	return all
}()

// Describe writes the descriptions of all metrics.
func Describe(to chan<- *prometheus.Desc) {
	for _, d := range descriptions {
		to <- d
	}
}

// Writer takes metrics in the form in which a client has them.
type Writer chan<- prometheus.Metric

// Put writes a counter or a gauge.
func (w Writer) Put(m Metric, value float64, labels ...string) {
	t := prometheus.GaugeValue
	if table[m].kind == counter {
		t = prometheus.CounterValue
	}
	w <- prometheus.MustNewConstMetric(descriptions[m], t, value, labels...)
}

// PutDurations writes a histogram of durations.
func (w Writer) PutDurations(m Metric, s histogram.Snapshot, labels ...string) {
	total, buckets := uint64(0), make(map[float64]uint64)
	for upper, n := range s.Buckets() {
		if total += n; upper != math.MaxInt64 {
			buckets[upper.Seconds()] = total
		}
	}
	w <- prometheus.MustNewConstHistogram(descriptions[m], total, s.Sum().Seconds(), buckets,
		labels...)
}
