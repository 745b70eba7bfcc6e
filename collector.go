package lockpipe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockpipe/lockpipe/internal/metrics"
)

var _ prometheus.Collector = (*Client)(nil)

// nodeStates has all states of a node, in the order of the metrics.
var nodeStates = [...]NodeState{
	NodeConnecting, NodeUp, NodeQuarantined, NodeDown, NodeFailing,
}

// Describe is for the prometheus.Registerer that the Client is registered with. If several Clients
// are in one Registerer, give each a label of its own:
// prometheus.WrapRegistererWith(prometheus.Labels{"locks": "orders"},
// registerer).MustRegister(client).
func (c *Client) Describe(to chan<- *prometheus.Desc) { metrics.Describe(to) }

// Collect reports what was counted since New and what is so now; docs/operations.md has the list.
// The number of time series depends on the number of nodes alone. It may be called at any time,
// also after Close.
func (c *Client) Collect(to chan<- prometheus.Metric) {
	w := metrics.Writer(to)
	c.metrics.counters.Collect(w)
	stats := c.Stats()
	w.Put(metrics.SplitVotes, float64(stats.SplitVotes))
	w.Put(metrics.LeasesHeld, float64(stats.Held))
	w.Put(metrics.Handovers, float64(stats.Handovers))
	w.Put(metrics.CallbackPanics, float64(stats.CallbackPanics))
	w.Put(metrics.DroppedCallbacks, float64(stats.DroppedCallbacks))
	w.Put(metrics.CallsPending, float64(c.calls.Load()&^closingBit))
	w.Put(metrics.Waiters, float64(c.queue.Waiting()))
	w.Put(metrics.AsyncPending, float64(c.asyncs.outstanding.Load()))
	w.Put(metrics.SpareNodes, float64(c.mux.SpareNodes()))
	nodes := c.Nodes()
	for i := range nodes {
		collectNode(w, &nodes[i])
	}
}

func collectNode(w metrics.Writer, n *NodeStatus) {
	for _, state := range nodeStates {
		is := 0.0
		if n.State == state {
			is = 1
		}
		w.Put(metrics.NodeState, is, n.Addr, state.String())
	}
	w.Put(metrics.NodeFlushes, float64(n.Stats.Flushes), n.Addr)
	w.Put(metrics.NodeOperations, float64(n.Stats.Operations), n.Addr)
	w.PutDurations(metrics.NodeFlushDuration, n.Stats.Latency.snapshot, n.Addr)
	for reason, count := range n.Stats.Failures.All() {
		w.Put(metrics.NodeFailures, float64(count), n.Addr, reason)
	}
	w.Put(metrics.NodePendingOperations, float64(n.Pending), n.Addr)
	w.Put(metrics.NodePendingReleases, float64(n.PendingReleases), n.Addr)
	w.Put(metrics.NodeDroppedReleases, float64(n.DroppedReleases), n.Addr)
	w.Put(metrics.NodeConnects, float64(n.Stats.Connects), n.Addr)
	w.Put(metrics.NodeDisconnects, float64(n.Stats.Disconnects), n.Addr)
}
