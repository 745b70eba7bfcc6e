// Package metrics shows Prometheus what a Client counts. A program that does not import it has no
// part of Prometheus in its binary.
//
// Each metric is one row of a table: its name, what it means, its type and its labels.
// docs/operations.md says what to do about each. The number of time series depends on the number of
// nodes alone: no label has a key of a user.
//
// All numbers come from Client.Stats, Client.Outcomes and Client.Nodes, which serve any other
// system of metrics too.
package metrics

import (
	"math"

	"github.com/lockpipe/lockpipe"
	"github.com/prometheus/client_golang/prometheus"
)

// NewCollector returns a collector of the client's metrics:
//
//	prometheus.MustRegister(metrics.NewCollector(client))
//
// If several Clients are in one registry, give each a label of its own by
// prometheus.WrapRegistererWith. A registry knows a collector by its metrics and labels alone, so
// it refuses a second one with the same. The collector may be used at any time, also after Close.
func NewCollector(client *lockpipe.Client) prometheus.Collector { return collector{client} }

type collector struct{ client *lockpipe.Client }

// nodeStates has all states of a node, in the order of the metrics.
var nodeStates = [...]lockpipe.NodeState{
	lockpipe.NodeConnecting, lockpipe.NodeUp, lockpipe.NodeQuarantined, lockpipe.NodeDown,
	lockpipe.NodeFailing,
}

// Describe writes the descriptions of all metrics.
func (collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range descriptions {
		to <- d
	}
}

// Collect writes what was counted since New and what is so now.
func (c collector) Collect(to chan<- prometheus.Metric) {
	w := writer(to)
	w.putOutcomes(c.client)
	w.putStats(c.client.Stats())
	nodes := c.client.Nodes()
	for i := range nodes {
		w.putNode(&nodes[i])
	}
}

// writer takes metrics in the form in which a Client has them.
type writer chan<- prometheus.Metric

func (w writer) putOutcomes(client *lockpipe.Client) {
	var attempted, held lockpipe.LatencyHistogram
	for _, o := range client.Outcomes() {
		n := float64(o.Count)
		switch o.What {
		case "call":
			w.put(calls, n, o.Kind, o.Outcome)
			if o.Outcome == "granted" {
				w.putDurations(acquireDuration, o.Durations, o.Kind)
			}
		case "attempt":
			w.put(attempts, n, o.Outcome)
			attempted = attempted.Plus(o.Durations)
		case "lease":
			w.put(leasesEnded, n, o.Outcome)
			held = held.Plus(o.Durations)
		case "extension":
			w.put(extensions, n, o.Outcome)
		case "release":
			w.put(releases, n, o.Outcome)
		}
	}
	w.putDurations(attemptDuration, attempted)
	w.putDurations(holdDuration, held)
}

func (w writer) putStats(s lockpipe.Stats) {
	w.put(splitVotes, float64(s.SplitVotes))
	w.put(leasesHeld, float64(s.Held))
	w.put(handovers, float64(s.Handovers))
	w.put(callsPending, float64(s.PendingCalls))
	w.put(waiters, float64(s.Waiters))
	w.put(asyncPending, float64(s.PendingAsync))
	w.put(callbackPanics, float64(s.CallbackPanics))
	w.put(droppedCallbacks, float64(s.DroppedCallbacks))
	w.put(spareNodes, float64(s.SpareNodes))
	w.put(foreignLayouts, float64(s.ForeignLayouts))
}

func (w writer) putNode(n *lockpipe.NodeStatus) {
	for _, state := range nodeStates {
		is := 0.0
		if n.State == state {
			is = 1
		}
		w.put(nodeState, is, n.Addr, state.String())
	}
	w.put(nodeFlushes, float64(n.Stats.Flushes), n.Addr)
	w.put(nodeOperations, float64(n.Stats.Operations), n.Addr)
	w.putDurations(nodeFlushDuration, n.Stats.Latency, n.Addr)
	for reason, count := range n.Stats.Failures.All() {
		w.put(nodeFailures, float64(count), n.Addr, reason)
	}
	w.put(nodePendingOperations, float64(n.Pending), n.Addr)
	w.put(nodePendingReleases, float64(n.PendingReleases), n.Addr)
	w.put(nodeDroppedReleases, float64(n.DroppedReleases), n.Addr)
	w.put(nodeConnects, float64(n.Stats.Connects), n.Addr)
	w.put(nodeDisconnects, float64(n.Stats.Disconnects), n.Addr)
}

// put writes a counter or a gauge.
func (w writer) put(m metric, value float64, labels ...string) {
	w <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
}

// putDurations writes a histogram of durations.
func (w writer) putDurations(m metric, h lockpipe.LatencyHistogram, labels ...string) {
	total, buckets := uint64(0), make(map[float64]uint64)
	for upper, n := range h.Classes() {
		if total += n; upper != math.MaxInt64 {
			buckets[upper.Seconds()] = total
		}
	}
	w <- prometheus.MustNewConstHistogram(m.desc, total, h.Sum().Seconds(), buckets, labels...)
}
