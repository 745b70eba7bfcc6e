package metrics

import "github.com/prometheus/client_golang/prometheus"

// metric is a row of the table.
type metric int

// The metrics. Those that begin with node have the address of the node as their first label.
const (
	calls metric = iota
	acquireDuration
	attempts
	attemptDuration
	splitVotes
	leasesHeld
	leasesEnded
	holdDuration
	extensions
	releases
	handovers
	callsPending
	waiters
	asyncPending
	callbackPanics
	droppedCallbacks
	spareNodes
	foreignLayouts
	nodeState // and the state
	nodeFlushes
	nodeOperations
	nodeFlushDuration
	nodeFailures // and the reason
	nodePendingOperations
	nodePendingReleases
	nodeDroppedReleases
	nodeConnects
	nodeDisconnects
)

// kind is the type of a metric.
type kind int

const (
	counter kind = iota
	gauge
	duration // a histogram of seconds
)

// table has all metrics.
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
		"Time from an acquiring call to its lease.",
		[]string{"kind"},
	},
	attempts: {
		"attempts_total", counter,
		"Attempts to acquire over all nodes, by outcome.",
		[]string{"outcome"},
	},
	attemptDuration: {
		"attempt_duration_seconds", duration,
		"Time from an attempt to acquire to its outcome.", nil,
	},
	splitVotes: {
		"split_votes_total", counter,
		"Attempts without a quorum whose votes were divided among contenders.", nil,
	},
	leasesHeld: {"leases_held", gauge, "Leases that are held.", nil},
	leasesEnded: {
		"leases_ended_total", counter,
		"Leases that are over, by how they ended.",
		[]string{"outcome"},
	},
	holdDuration: {
		"hold_duration_seconds", duration,
		"Time for which ended leases were held.", nil,
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
	handovers: {
		"handovers_total", counter,
		"Leases that went from one caller of the process to the next without a release.", nil,
	},
	callsPending: {"calls_pending", gauge, "Calls that are under way.", nil},
	waiters: {
		"waiters", gauge,
		"Waiting calls that queue in the process for their keys.", nil,
	},
	asyncPending: {
		"async_pending", gauge,
		"Calls of AcquireAsync that are pending or wait for their function.", nil,
	},
	callbackPanics: {
		"callback_panics_total", counter,
		"Panics in functions given to OnLost and AcquireAsync.", nil,
	},
	droppedCallbacks: {
		"onlost_dropped_total", counter,
		"Calls of OnLost that were dropped, because too many were waiting.", nil,
	},
	foreignLayouts: {
		"foreign_layouts", gauge,
		"Layouts of other clients that share no quorum with this one's: they do not exclude it.",
		nil,
	},
	spareNodes: {
		"spare_nodes", gauge,
		"How many more nodes may fail while a quorum remains; negative if there is no quorum.",
		nil,
	},
	nodeState: {
		"node_state", gauge,
		"1 for the state of the node, else 0.",
		[]string{"node", "state"},
	},
	nodeFlushes: {"node_flushes_total", counter, "Flushes to the node.", []string{"node"}},
	nodeOperations: {
		"node_operations_total", counter,
		"Operations that flushes to the node carried.",
		[]string{"node"},
	},
	nodeFlushDuration: {
		"node_flush_duration_seconds", duration,
		"Time from sending a flush to the node's answer.",
		[]string{"node"},
	},
	nodeFailures: {
		"node_failures_total", counter,
		"Operations for which the node has not voted, by reason.",
		[]string{"node", "kind"},
	},
	nodePendingOperations: {
		"node_pending_operations", gauge,
		"Operations that wait to be sent to the node.",
		[]string{"node"},
	},
	nodePendingReleases: {
		"node_pending_releases", gauge,
		"Releases that wait until the node can answer them.",
		[]string{"node"},
	},
	nodeDroppedReleases: {
		"node_dropped_releases_total", counter,
		"Kept releases that were dropped, because their keys had expired or too many were kept.",
		[]string{"node"},
	},
	nodeConnects: {
		"node_connects_total", counter,
		"How often the node came up.",
		[]string{"node"},
	},
	nodeDisconnects: {
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
