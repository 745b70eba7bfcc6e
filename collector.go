package lockpipe

import (
	"math"

	"github.com/lockpipe/lockpipe/latency"
	"github.com/prometheus/client_golang/prometheus"
)

// What a Client tells Prometheus: see docs/operations.md for what each means, and what to do about
// it.
var (
	descCalls = describe("calls_total", "Acquiring calls that have returned, by kind and "+
		"outcome.", "kind", "outcome")
	descAcquire = describe("acquire_duration_seconds", "Time from an acquiring call to its "+
		"lease, for those that got one.", "kind")
	descAttempts = describe("attempts_total", "Attempts to acquire over all nodes, by outcome.",
		"outcome")
	descAttempt = describe("attempt_duration_seconds", "Time from before an attempt to "+
		"acquire was sent to its outcome.")
	descSplitVotes = describe("split_votes_total", "Attempts without a quorum whose votes were "+
		"divided among contenders.")
	descHeld  = describe("leases_held", "Leases that are held now.")
	descEnded = describe("leases_ended_total", "Leases that are over, by how they ended.",
		"outcome")
	descHold = describe("hold_duration_seconds", "Time for which leases were held that "+
		"are over.")
	descExtensions = describe("extensions_total", "Extensions of leases, by outcome.", "outcome")
	descReleases   = describe("releases_total", "Calls to release a lease, by outcome.", "outcome")
	descHandovers  = describe("handovers_total", "Leases that went from one caller of the "+
		"process to the next without a release.")
	descPending = describe("calls_pending", "Calls that are under way now.")
	descWaiters = describe("waiters", "Waiting calls that queue in the process for their "+
		"keys now.")
	descAsync = describe("async_pending", "Calls of AcquireAsync that are pending or wait "+
		"for their function now.")
	descPanics = describe("callback_panics_total", "Panics in functions given to OnLost "+
		"and AcquireAsync.")
	descOnLost = describe("onlost_dropped_total", "Calls of OnLost that were dropped, "+
		"because too many of them were waiting.")
	descSpare = describe("spare_nodes", "Nodes that may still fail before no quorum can "+
		"be reached; negative where none can.")
	descState = describe("node_state", "1 for the state that the node is in, else 0.", "node",
		"state")
	descFlushes    = describe("node_flushes_total", "Trips to the node.", "node")
	descOperations = describe("node_operations_total",
		"Operations that trips to the node carried.", "node")
	descFlush = describe("node_flush_duration_seconds",
		"Time from sending a flush to the answer of the node.", "node")
	descFailures = describe("node_failures_total", "Operations for which the node has not "+
		"voted, by the reason.", "node", "kind")
	descBacklog = describe("node_pending_operations", "Operations that wait to be sent to "+
		"the node now.", "node")
	descKept = describe("node_pending_releases", "Releases that wait now until the node "+
		"can answer them.", "node")
	descDropped = describe("node_dropped_releases_total",
		"Kept releases that were dropped, because their keys had expired or too many were kept.",
		"node")
	descConnects    = describe("node_connects_total", "How often the node came up.", "node")
	descDisconnects = describe("node_disconnects_total", "How often the node was up and was lost.",
		"node")
	descriptions []*prometheus.Desc // all of them
	nodeStates                      = [...]NodeState{
		NodeConnecting, NodeUp, NodeQuarantined,
		NodeDown, NodeFailing,
	}
	_ prometheus.Collector = (*Client)(nil)
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc("lockpipe_"+name, help, labels, nil)
	descriptions = append(descriptions, d)
	return d
}

// Describe is for the prometheus.Registerer that the Client is registered with. Where there are
// several Clients in one, each is to be told apart by a label:
// prometheus.WrapRegistererWith(prometheus.Labels{"locks": "orders"},
// registerer).MustRegister(client).
func (c *Client) Describe(to chan<- *prometheus.Desc) {
	for _, d := range descriptions {
		to <- d
	}
}

// Collect tells what was counted since New and what is so now; docs/operations.md has the list. The
// number of time series depends on the number of nodes alone. It may be called at any time, also
// after Close.
func (c *Client) Collect(to chan<- prometheus.Metric) {
	s := sink(to)
	c.collectCalls(s)
	c.collectLeases(s)
	nodes := c.Nodes()
	for i := range nodes {
		s.node(&nodes[i])
	}
	s.gauge(descSpare, c.mux.SpareNodes())
}

func (c *Client) collectCalls(s sink) {
	m := &c.meters
	for k, kind := range callKinds {
		took := m.grants[k].Counts()
		s.histogram(descAcquire, took, kind)
		for _, o := range callOutcomes {
			n := m.failures[k][o].Load()
			if o == outcomeGranted {
				n = took.Total()
			}
			s.counter(descCalls, n, kind, o.String())
		}
	}
	var took latency.Counts
	for _, o := range attemptOutcomes {
		counts := m.tried(o)
		s.counter(descAttempts, counts.Total(), o.String())
		took = took.Plus(counts)
	}
	s.histogram(descAttempt, took)
	s.counter(descSplitVotes, c.mux.Stats().SplitVotes)
	s.gauge(descPending, int(c.calls.Load()&^closingBit))
	s.gauge(descWaiters, c.queue.Waiting())
	s.gauge(descAsync, int(c.asyncs.outstanding.Load()))
}

func (c *Client) collectLeases(s sink) {
	m := &c.meters
	var kept latency.Counts
	for _, o := range endOutcomes {
		counts := m.holds[o].Counts()
		s.counter(descEnded, counts.Total(), o.String())
		kept = kept.Plus(counts)
	}
	s.histogram(descHold, kept)
	s.gauge(descHeld, c.leases.Stats().Held)
	for _, o := range extensionOutcomes {
		s.counter(descExtensions, m.extensions[o].Load(), o.String())
	}
	for _, o := range releaseOutcomes {
		s.counter(descReleases, m.releases[o].Load(), o.String())
	}
	s.counter(descHandovers, c.handovers.Load())
	s.counter(descPanics, c.callbacks.panics.Load())
	s.counter(descOnLost, c.callbacks.dropped.Load())
}

// sink takes metrics in the form in which a Client has them.
type sink chan<- prometheus.Metric

func (s sink) node(n *NodeStatus) {
	for _, state := range nodeStates {
		is := 0
		if n.State == state {
			is = 1
		}
		s.gauge(descState, is, n.Addr, state.String())
	}
	s.counter(descFlushes, n.Stats.Flushes, n.Addr)
	s.counter(descOperations, n.Stats.Operations, n.Addr)
	s.histogram(descFlush, n.Stats.Latency, n.Addr)
	for reason, count := range n.Stats.Failures.All() {
		s.counter(descFailures, count, n.Addr, reason)
	}
	s.gauge(descBacklog, n.Pending, n.Addr)
	s.gauge(descKept, n.PendingReleases, n.Addr)
	s.counter(descDropped, n.DroppedReleases, n.Addr)
	s.counter(descConnects, n.Stats.Connects, n.Addr)
	s.counter(descDisconnects, n.Stats.Disconnects, n.Addr)
}

func (s sink) counter(d *prometheus.Desc, n uint64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func (s sink) gauge(d *prometheus.Desc, n int, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
}

func (s sink) histogram(d *prometheus.Desc, c latency.Counts, labels ...string) {
	total, buckets := uint64(0), make(map[float64]uint64)
	for upper, n := range c.Classes() {
		if total += n; upper != math.MaxInt64 {
			buckets[upper.Seconds()] = total
		}
	}
	s <- prometheus.MustNewConstHistogram(d, total, c.Sum().Seconds(), buckets, labels...)
}
