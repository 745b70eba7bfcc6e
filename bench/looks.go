package bench

import (
	"time"

	"github.com/lockpipe/lockpipe"
)

// lookPatience is how much longer the pause between two looks is than a look, at least.
const lookPatience = 20

// look is what the Clients have counted by themselves up to a moment, all together.
type look struct {
	extended uint64
	nodes    []nodeLook
}

// nodeLook is that about one node.
type nodeLook struct {
	address               string
	flushes, operations   uint64
	connects, disconnects uint64
	trips                 lockpipe.LatencyHistogram
	failures              lockpipe.NodeFailures
}

// lookAt returns a function that looks at all Clients.
func lookAt(clients []*lockpipe.Client) func() look {
	return func() (all look) {
		for _, client := range clients {
			all.extended += client.Stats().Extended
			for i, status := range client.Nodes() {
				if i == len(all.nodes) {
					all.nodes = append(all.nodes, nodeLook{address: status.Addr})
				}
				all.nodes[i].add(nodeLook{
					flushes: status.Stats.Flushes, operations: status.Stats.Operations,
					connects: status.Stats.Connects, disconnects: status.Stats.Disconnects,
					trips: status.Stats.Latency, failures: status.Stats.Failures,
				})
			}
		}
		return all
	}
}

func (n *nodeLook) add(more nodeLook) {
	n.flushes += more.flushes
	n.operations += more.operations
	n.connects += more.connects
	n.disconnects += more.disconnects
	n.trips = n.trips.Plus(more.trips)
	n.failures = combined(n.failures, more.failures, func(a, b uint64) uint64 { return a + b })
}

// since is what was counted since an earlier look.
func (n nodeLook) since(before nodeLook) nodeLook {
	n.flushes -= before.flushes
	n.operations -= before.operations
	n.connects -= before.connects
	n.disconnects -= before.disconnects
	n.trips = n.trips.Minus(before.trips)
	n.failures = combined(n.failures, before.failures, func(a, b uint64) uint64 { return a - b })
	return n
}

func combined(a, b lockpipe.NodeFailures, by func(a, b uint64) uint64) lockpipe.NodeFailures {
	return lockpipe.NodeFailures{
		Timeout: by(a.Timeout, b.Timeout), Connection: by(a.Connection, b.Connection),
		Down:        by(a.Down, b.Down),
		Quarantined: by(a.Quarantined, b.Quarantined), Server: by(a.Server, b.Server),
		Protocol: by(a.Protocol, b.Protocol),
		DataLoss: by(a.DataLoss, b.DataLoss), QueuedTooLong: by(a.QueuedTooLong, b.QueuedTooLong),
		Overloaded: by(a.Overloaded, b.Overloaded),
	}
}

func (n nodeLook) failed() (all uint64) {
	for _, count := range n.failures.All() {
		all += count
	}
	return all
}

func (p *span) addNodes(more []nodeLook) {
	for i, n := range more {
		if i == len(p.nodes) {
			p.nodes = append(p.nodes, nodeLook{address: n.address})
		}
		p.nodes[i].add(n)
	}
}

// follow looks at the Clients now and then, until the function that it returns is called, and once
// then. What is counted between two looks belongs to the interval in which the first of them was.
func (s *series) follow(look func() look) (stop func()) {
	if look == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	before, at := look(), time.Now()
	go func() {
		defer close(ended)
		pause := s.untilNext()
		for last := false; !last; {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-done:
				timer.Stop()
				last = true
			}
			begun := time.Now()
			now := look()
			s.note(at.Sub(s.start), now, before)
			before, at = now, time.Now()
			pause = max(s.untilNext(), lookPatience*at.Sub(begun)) // very many Clients take long
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// untilNext is the time until the next interval begins.
func (s *series) untilNext() time.Duration {
	at := time.Since(s.start)
	_, until := s.interval(at)
	return until - at
}

// note enters what was counted between two looks.
func (s *series) note(at time.Duration, now, before look) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.at(at)
	p.tally.Extended += now.extended - before.extended
	fresh := make([]nodeLook, len(now.nodes))
	for i := range now.nodes {
		fresh[i] = now.nodes[i].since(before.nodes[i])
	}
	p.addNodes(fresh)
}

// nodes tells what each node did. mu is held.
func (s *series) nodes() (told []NodeSeries) {
	var whole span
	for _, p := range s.intervals {
		whole.addNodes(p.nodes)
	}
	for i, n := range whole.nodes {
		r := NodeSeries{
			Node: n.address, Flushes: n.flushes, Operations: n.operations, Connects: n.connects,
			Disconnects: n.disconnects,
			FlushMs: Spread{
				Calls: n.trips.Total(), P50: quantile(n, 0.5), P90: quantile(n, 0.9),
				P99: quantile(n, 0.99), Max: quantile(n, 1),
			},
		}
		for reason, count := range n.failures.All() {
			if count > 0 {
				if r.Failures == nil {
					r.Failures = make(map[string]uint64)
				}
				r.Failures[reason] = count
			}
		}
		for _, p := range s.intervals {
			var one nodeLook // where nobody looked
			if i < len(p.nodes) {
				one = p.nodes[i]
			}
			r.FlushesEach = append(r.FlushesEach, one.flushes)
			r.FlushP50MsEach = append(r.FlushP50MsEach, quantile(one, 0.5))
			r.FlushP99MsEach = append(r.FlushP99MsEach, quantile(one, 0.99))
			r.FailuresEach = append(r.FailuresEach, one.failed())
		}
		told = append(told, r)
	}
	return told
}

// quantile is in milliseconds, without digits that would say more than the classes do.
func quantile(n nodeLook, q float64) float64 {
	return milliseconds(n.trips.Quantile(q).Round(time.Microsecond))
}
