package bench

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/check"
	"github.com/lockpipe/lockpipe/bench/fleet"
	"github.com/lockpipe/lockpipe/bench/process"
	"github.com/lockpipe/lockpipe/bench/series"
)

const (
	// holdCallers is how many calls of the scenario Hold are in progress at the same time.
	holdCallers = 4
	// holdChunk is the most keys in one of its calls.
	holdChunk = 1000
)

// withScenario returns c with what the scenario Hold sets instead of the user.
func (c Config) withScenario() Config {
	if c.Scenario != Hold {
		return c
	}
	c.Callers, c.Rate, c.Keys, c.Hold = holdCallers, 0, c.Leases, c.Duration
	c.Batch = min(holdChunk, (c.Leases+c.Clients-1)/c.Clients)
	c.AutoExtend = c.transferTimeout() + c.Duration + c.transferTimeout()
	return c
}

// transferTimeout bounds the time in which all leases are taken, and that in which they are
// released: far more than any nodes need that can hold so many.
func (c Config) transferTimeout() time.Duration {
	return 5*time.Minute + time.Duration(c.Leases)*time.Millisecond
}

// holdRun is one run of the scenario Hold: acquire everything, keep it, release it. It costs one
// pointer for each lease, because the memory of the Clients is measured in the same process. So the
// names of keys are made when they are needed, and a sample reads the lease itself.
type holdRun struct {
	// set once
	cfg     Config // as withScenario returns it
	prefix  string
	clients []*lockpipe.Client
	nodes   []check.Endpoint
	series  *series.Builder

	// Of key i; nil if it was not granted. The caller of a chunk owns its part.
	leases   []*lockpipe.Lease
	acquired atomic.Uint64

	mu       sync.Mutex // guards all below while there are callers
	counts   counts
	acquire  series.Histogram
	release  series.Histogram
	recorder *series.Recorder
}

func newHoldRun(cfg Config, prefix string, clients []*lockpipe.Client,
	nodes []check.Endpoint,
) *holdRun {
	h := &holdRun{
		cfg: cfg, prefix: prefix, clients: clients, nodes: nodes, series: series.NewBuilder(),
		leases:  make([]*lockpipe.Lease, cfg.Leases),
		acquire: series.NewHistogram(), release: series.NewHistogram(),
	}
	h.recorder = h.series.NewRecorder(func() series.Tally {
		return h.counts.tally(h.acquired.Load())
	})
	return h
}

// run acquires, keeps and releases. If ctx ends early, that is no error. A key that was not granted
// is one, and then nothing is kept.
func (h *holdRun) run(ctx context.Context) (measured, *HoldReport, error) {
	before, memory, start := process.UsageNow(), process.ResidentBytes(), time.Now()
	h.series.Start(start)
	stopProgress := h.series.Progress(h.cfg.Progress, h.acquired.Load)
	stopPolling := h.series.Poll(func() []*lockpipe.Client { return h.clients })
	err := h.acquireAll(ctx)
	acquired := time.Now()
	report := &HoldReport{
		Leases: int(h.acquired.Load()), TakeS: acquired.Sub(start).Seconds(),
		ClientRSSBytesPerLease: new(float64), ClientCPUCores: new(float64),
	}
	if err == nil && ctx.Err() == nil {
		h.keep(ctx, report, memory)
	}
	kept := time.Now()
	h.releaseAll(context.WithoutCancel(ctx))
	report.GiveS = time.Since(kept).Seconds()
	stopProgress()
	stopPolling()

	used := process.UsageNow().Since(before)
	h.recorder.Commit()
	m := measured{
		started: start, elapsed: time.Since(start), acquired: h.acquired.Load(),
		counts: h.counts, used: used,
		acquire: h.acquire.Latency(), release: h.release.Latency(),
	}
	m.series = h.series.Series(m.elapsed)
	return m, report, err
}

// keep waits for Config.Duration or until ctx ends, and measures meanwhile. memory is the resident
// set before the first lease.
func (h *holdRun) keep(ctx context.Context, r *HoldReport, memory int64) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Duration)
	defer cancel()
	start, cpu, extended := time.Now(), process.CPUTime(), fleet.Stats(h.clients).Extended
	pick := func() check.Lease { return h.leases[rand.IntN(len(h.leases))] }
	sampler := check.NewSampler(h.groups(), h.groupOf, h.cfg.TTL, h.cfg.nodeTimeout, pick)
	var found check.Samples
	var sampling sync.WaitGroup
	sampling.Go(func() { found = sampler.Run(ctx) })
	most := process.Largest(ctx, process.ResidentBytes)
	sampling.Wait()

	r.KeepS = time.Since(start).Seconds()
	r.ExtensionsPerS = per(float64(fleet.Stats(h.clients).Extended-extended), r.KeepS)
	*r.ClientCPUCores = per((process.CPUTime() - cpu).Seconds(), r.KeepS)
	*r.ClientRSSBytesPerLease = float64(max(most-memory, 0)) / float64(len(h.leases))
	r.Samples, r.Unanswered = found.Taken, found.Unanswered
	r.Missing, r.FirstMissing = found.Missing, found.FirstMissing
}

// groups returns the nodes of each group.
func (h *holdRun) groups() [][]check.Endpoint {
	return slices.Collect(slices.Chunk(h.nodes, len(h.nodes)/h.cfg.Groups))
}

// groupOf returns the index of a key's group.
func (h *holdRun) groupOf(key string) int { return fleet.GroupIndex(h.clients[0].GroupOf(key)) }
