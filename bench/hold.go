package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe"
)

const (
	// holdCallers is how many calls of the scenario Hold are under way at once.
	holdCallers = 4
	// holdChunk is the most keys in one of its calls.
	holdChunk = 1000
	// memoryStep is how often the resident set is looked at while the leases are held.
	memoryStep = 100 * time.Millisecond
)

// settled is c with what the scenario Hold sets for itself in place of what other scenarios are
// told.
func (c Config) settled() Config {
	if c.Scenario != Hold {
		return c
	}
	c.Callers, c.Rate, c.Keys, c.Hold = holdCallers, 0, c.Leases, c.Duration
	c.Batch = min(holdChunk, (c.Leases+c.Clients-1)/c.Clients)
	c.AutoExtend = c.moving() + c.Duration + c.moving()
	return c
}

// moving bounds the time in which all leases are taken, and that in which they are given back: far
// more than any nodes need that can hold so many.
func (c Config) moving() time.Duration {
	return 5*time.Minute + time.Duration(c.Leases)*time.Millisecond
}

// holding is one run of the scenario Hold: take everything, keep it, give it back. It costs one
// pointer for each lease, because the memory of the Clients is measured in the same process: names
// of keys are made when they are needed, and what a sample needs to know stands in the lease.
type holding struct {
	// set once
	cfg     Config // as settled
	prefix  string
	clients []*lockpipe.Client
	nodes   []endpoint

	// Of key i; nil where it was not granted. A chunk belongs to who works on it.
	leases   []*lockpipe.Lease
	acquired atomic.Uint64

	mu      sync.Mutex // guards all below while there are callers
	counts  counts
	acquire latency
	release latency
	tab     tab
}

func newHolding(cfg Config, prefix string, clients []*lockpipe.Client, nodes []endpoint) *holding {
	h := &holding{
		cfg: cfg, prefix: prefix, clients: clients, nodes: nodes,
		leases: make([]*lockpipe.Lease, cfg.Leases), acquire: newLatency(), release: newLatency(),
	}
	h.tab = tab{series: newSeries(), counts: &h.counts, acquired: &h.acquired}
	return h
}

// run takes, keeps and gives. An early end of ctx is no error; a key that was not granted is one,
// and then nothing is kept.
func (h *holding) run(ctx context.Context) (measured, *HoldReport, error) {
	before, memory, start := costNow(), residentBytes(), time.Now()
	h.tab.series.start = start
	stopProgress, stopLooking := h.cfg.progress(start, h.acquired.Load),
		h.tab.series.follow(lookAt(h.clients))
	err := h.take(ctx)
	taken := time.Now()
	report := &HoldReport{Leases: int(h.acquired.Load()), TakeS: taken.Sub(start).Seconds()}
	if err == nil && ctx.Err() == nil {
		h.keep(ctx, report, memory)
	}
	kept := time.Now()
	h.give(context.WithoutCancel(ctx))
	report.GiveS = time.Since(kept).Seconds()
	stopProgress()
	stopLooking()

	after := costNow()
	h.tab.hand()
	m := measured{
		started: start, elapsed: time.Since(start), acquired: h.acquired.Load(),
		counts: h.counts,
	}
	m.series = h.tab.series.report(m.elapsed)
	m.cost = cost{cpu: after.cpu - before.cpu, allocs: after.allocs - before.allocs}
	m.acquire, m.release = h.acquire.summary(), h.release.summary()
	return m, report, err
}

// keep waits for Config.Duration or until ctx ends, and measures meanwhile; memory is the resident
// set before the first lease.
func (h *holding) keep(ctx context.Context, r *HoldReport, memory int64) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Duration)
	defer cancel()
	start, cpu, extended := time.Now(), cpuTime(), sumStats(h.clients).Extended
	s := newSampler(h.nodes, h.leases, h.cfg.TTL)
	var sampling sync.WaitGroup
	sampling.Go(func() { s.run(ctx) })
	most := largest(ctx, residentBytes)
	sampling.Wait()

	r.KeepS = time.Since(start).Seconds()
	r.ExtensionsPerS = per(float64(sumStats(h.clients).Extended-extended), r.KeepS)
	r.ClientCPUCores = per((cpuTime() - cpu).Seconds(), r.KeepS)
	r.ClientRSSBytesPerLease = float64(max(most-memory, 0)) / float64(len(h.leases))
	r.Samples, r.Dead, r.Unanswered, r.FirstDead = s.samples, s.dead, s.unanswered, s.firstDead
}

// largest returns the largest of the values that look returns until ctx ends.
func largest(ctx context.Context, look func() int64) int64 {
	tick := time.NewTicker(memoryStep)
	defer tick.Stop()
	most := look()
	for {
		select {
		case <-tick.C:
			most = max(most, look())
		case <-ctx.Done():
			return max(most, look())
		}
	}
}
