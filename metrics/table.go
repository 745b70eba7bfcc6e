package metrics

import "github.com/prometheus/client_golang/prometheus"

const (
	counter  = prometheus.CounterValue
	gauge    = prometheus.GaugeValue
	duration = prometheus.UntypedValue // a histogram of seconds
)

// metric is a row of the table.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// descriptions has all rows of the table.
var descriptions []*prometheus.Desc

// row adds a row to the table. name is what is behind lockpipe_.
func row(kind prometheus.ValueType, name, help string, labels ...string) metric {
	d := prometheus.NewDesc("lockpipe_"+name, help, labels, nil)
	descriptions = append(descriptions, d)
	return metric{d, kind}
}

// The table of all metrics of a Client.
var (
	calls = row(counter, "calls_total",
		"Acquiring calls that have returned, by kind and outcome.", "kind", "outcome")
	acquireDuration = row(duration, "acquire_duration_seconds",
		"Time from an acquiring call to its lease.", "kind")
	attempts = row(counter, "attempts_total",
		"Attempts to acquire over all nodes, by outcome.", "outcome")
	attemptDuration = row(duration, "attempt_duration_seconds",
		"Time from an attempt to acquire to its outcome.")
	splitVotes = row(counter, "split_votes_total",
		"Attempts without a quorum whose votes were divided among contenders.")
	leasesHeld  = row(gauge, "leases_held", "Leases that are held.")
	leasesEnded = row(counter, "leases_ended_total",
		"Leases that are over, by how they ended.", "outcome")
	holdDuration = row(duration, "hold_duration_seconds",
		"Time for which ended leases were held.")
	extensions = row(counter, "extensions_total", "Extensions of leases, by outcome.", "outcome")
	releases   = row(counter, "releases_total", "Calls to release a lease, by outcome.", "outcome")
	handovers  = row(counter, "handovers_total",
		"Leases that went from one caller of the process to the next without a release.")
	callsPending = row(gauge, "calls_pending", "Calls that are under way.")
	waiters      = row(gauge, "waiters", "Waiting calls that queue in the process for their keys.")
	asyncPending = row(gauge, "async_pending",
		"Calls of AcquireAsync that are pending or wait for their function.")
	callbackPanics = row(counter, "callback_panics_total",
		"Panics in functions given to OnLost and AcquireAsync.")
	droppedCallbacks = row(counter, "onlost_dropped_total",
		"Calls of OnLost that were dropped, because too many were waiting.")
	foreignLayouts = row(gauge, "foreign_layouts",
		"Layouts of other clients that share no quorum with this one's: they do not exclude it.")
	spareNodes = row(gauge, "spare_nodes",
		"How many more nodes may fail while a quorum remains; negative if there is no quorum.")
)

// The table of all metrics of a node, whose address is their first label.
var (
	nodeState      = row(gauge, "node_state", "1 for the state of the node, else 0.", "node", "state")
	nodeFlushes    = row(counter, "node_flushes_total", "Flushes to the node.", "node")
	nodeOperations = row(counter, "node_operations_total",
		"Operations that flushes to the node carried.", "node")
	nodeFlushDuration = row(duration, "node_flush_duration_seconds",
		"Time from sending a flush to the node's answer.", "node")
	nodeFailures = row(counter, "node_failures_total",
		"Operations for which the node has not voted, by reason.", "node", "kind")
	nodePendingOperations = row(gauge, "node_pending_operations",
		"Operations that wait to be sent to the node.", "node")
	nodePendingReleases = row(gauge, "node_pending_releases",
		"Releases that wait until the node can answer them.", "node")
	nodeDroppedReleases = row(counter, "node_dropped_releases_total",
		"Kept releases that were dropped, because their keys had expired or too many were kept.",
		"node")
	nodeConnects    = row(counter, "node_connects_total", "How often the node came up.", "node")
	nodeDisconnects = row(counter, "node_disconnects_total",
		"How often the node was up and was lost.", "node")
)
