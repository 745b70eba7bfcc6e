package series

import (
	"slices"
	"time"

	"github.com/lockpipe/lockpipe"
)

// pollShare is how much longer the pause between two snapshots is than a snapshot, at least.
const pollShare = 20

// snapshot is what all Clients together have counted up to a moment.
type snapshot struct {
	extended uint64
	nodes    []nodeCounts
}

// nodeCounts is the part about one node.
type nodeCounts struct {
	address               string
	flushes, operations   uint64
	connects, disconnects uint64
	latency               lockpipe.LatencyHistogram
	failures              lockpipe.NodeFailures
}

// snapshotOf reads the counters of all Clients.
func snapshotOf(clients []*lockpipe.Client) (all snapshot) {
	for _, client := range clients {
		all.extended += client.Stats().Extended
		for i, status := range client.Nodes() {
			all.node(i, status.Addr).add(nodeCounts{
				flushes: status.Stats.Flushes, operations: status.Stats.Operations,
				connects: status.Stats.Connects, disconnects: status.Stats.Disconnects,
				latency: status.Stats.Latency, failures: status.Stats.Failures,
			})
		}
	}
	return all
}

// node returns the counts of a node, which is often the one with this index: Clients may have
// different nodes while a fleet moves.
func (s *snapshot) node(index int, address string) *nodeCounts {
	if index >= len(s.nodes) || s.nodes[index].address != address {
		same := func(n nodeCounts) bool { return n.address == address }
		if index = slices.IndexFunc(s.nodes, same); index < 0 {
			index = len(s.nodes)
			s.nodes = append(s.nodes, nodeCounts{address: address})
		}
	}
	return &s.nodes[index]
}

func (n *nodeCounts) add(more nodeCounts) {
	latency := n.latency.Plus(more.latency)
	*n = n.with(more, func(a, b uint64) uint64 { return a + b })
	n.latency = latency
}

// since returns what was counted since an earlier snapshot.
func (n nodeCounts) since(before nodeCounts) nodeCounts {
	delta := n.with(before, func(a, b uint64) uint64 { return a - b })
	delta.latency = n.latency.Minus(before.latency)
	return delta
}

// with combines each count with that of another one, but for latency.
func (n nodeCounts) with(other nodeCounts, combine func(a, b uint64) uint64) nodeCounts {
	a, b := n.failures, other.failures
	return nodeCounts{
		address:     n.address,
		flushes:     combine(n.flushes, other.flushes),
		operations:  combine(n.operations, other.operations),
		connects:    combine(n.connects, other.connects),
		disconnects: combine(n.disconnects, other.disconnects),
		failures: lockpipe.NodeFailures{
			Timeout:       combine(a.Timeout, b.Timeout),
			Connection:    combine(a.Connection, b.Connection),
			Down:          combine(a.Down, b.Down),
			Quarantined:   combine(a.Quarantined, b.Quarantined),
			Server:        combine(a.Server, b.Server),
			Protocol:      combine(a.Protocol, b.Protocol),
			DataLoss:      combine(a.DataLoss, b.DataLoss),
			QueuedTooLong: combine(a.QueuedTooLong, b.QueuedTooLong),
			Overloaded:    combine(a.Overloaded, b.Overloaded),
		},
	}
}

func (n nodeCounts) failed() (all uint64) {
	for _, count := range n.failures.All() {
		all += count
	}
	return all
}

func (i *interval) addNodes(more []nodeCounts) {
	for k, n := range more {
		if k == len(i.nodes) {
			i.nodes = append(i.nodes, nodeCounts{address: n.address})
		}
		i.nodes[k].add(n)
	}
}

// Poll reads the counters of the Clients about once in each interval, until stop is called, and a
// last time then. What they count between two snapshots belongs to the interval of the first one.
// clients returns all Clients that there have been; it may be nil, and then Poll does nothing.
func (b *Builder) Poll(clients func() []*lockpipe.Client) (stop func()) {
	if clients == nil {
		return func() {}
	}
	return b.poll(func() snapshot { return snapshotOf(clients()) })
}

func (b *Builder) poll(take func() snapshot) (stop func()) {
	before, at := take(), time.Now()
	return repeat(b.untilNext(), func() (pause time.Duration) {
		begun := time.Now()
		now := take()
		b.addSnapshot(at.Sub(b.start), now, before)
		before, at = now, time.Now()
		return max(b.untilNext(), pollShare*at.Sub(begun)) // very many Clients take long
	})
}

// untilNext returns the time until the next interval begins.
func (b *Builder) untilNext() time.Duration {
	at := time.Since(b.start)
	_, until := b.bounds(at)
	return until - at
}

// addSnapshot enters what was counted between two snapshots.
func (b *Builder) addSnapshot(at time.Duration, now, before snapshot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.intervalAt(at)
	i.tally.Extended += now.extended - before.extended
	delta := make([]nodeCounts, len(now.nodes))
	for k := range now.nodes {
		if k == len(before.nodes) { // a Client has come with another node
			before.nodes = append(before.nodes, nodeCounts{address: now.nodes[k].address})
		}
		delta[k] = now.nodes[k].since(before.nodes[k])
	}
	i.addNodes(delta)
}

// nodes returns what each node did, which is whole in all intervals together. mu is held.
func (b *Builder) nodes(whole []nodeCounts) (list []NodeSeries) {
	for k, n := range whole {
		s := n.series()
		for _, i := range b.intervals {
			var one nodeCounts // if nothing was polled
			if k < len(i.nodes) {
				one = i.nodes[k]
			}
			s.FlushesEach = append(s.FlushesEach, one.flushes)
			s.FlushP50MsEach = append(s.FlushP50MsEach, one.quantile(0.5))
			s.FlushP99MsEach = append(s.FlushP99MsEach, one.quantile(0.99))
			s.FailuresEach = append(s.FailuresEach, one.failed())
		}
		list = append(list, s)
	}
	return list
}

// series returns the totals of a node.
func (n nodeCounts) series() NodeSeries {
	s := NodeSeries{
		Node: n.address, Flushes: n.flushes, Operations: n.operations, Connects: n.connects,
		Disconnects: n.disconnects,
		FlushMs: Spread{
			Calls: n.latency.Total(), P50: n.quantile(0.5), P90: n.quantile(0.9),
			P99: n.quantile(0.99), Max: n.quantile(1),
		},
	}
	for reason, count := range n.failures.All() {
		if count > 0 {
			if s.Failures == nil {
				s.Failures = make(map[string]uint64)
			}
			s.Failures[reason] = count
		}
	}
	return s
}

// quantile returns a quantile of the latency in milliseconds, without digits that would say more
// than the buckets do.
func (n nodeCounts) quantile(q float64) float64 {
	return Milliseconds(n.latency.Quantile(q).Round(time.Microsecond))
}
