package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/batches"
	"github.com/lockpipe/lockpipe/bench/calls"
	"github.com/lockpipe/lockpipe/bench/check"
	"github.com/lockpipe/lockpipe/bench/fleet"
	"github.com/lockpipe/lockpipe/bench/process"
	"github.com/lockpipe/lockpipe/bench/series"
	"github.com/lockpipe/lockpipe/fence"
)

// load is the measured part of a run: all workers, from the common start to the last one's end.
type load struct {
	// set once before the workers start
	cfg          Config
	names        []string
	ownership    *check.Ownership
	series       *series.Builder
	start        time.Time
	workers      []*worker
	preciseSleep func(time.Duration)
	clients      func() []*lockpipe.Client // whose counters are in the series; nil: none
	fences       *fence.Checker            // nil without fencing
	batches      []*batches.Calls          // of each Client, in the scenario Combine

	// begun is how many calls of the open loop's timetable have found a worker.
	begun atomic.Int64
}

// measured is the outcome of a load.
type measured struct {
	started    time.Time
	elapsed    time.Duration
	used       process.Usage
	acquired   uint64
	unserved   uint64
	counts     counts
	acquire    series.Latency
	release    series.Latency
	violations uint64
	series     *series.Series
	backward   uint64          // fences that were not above earlier ones
	hot        *HotReport      // without the counters of the Clients; nil but if Config.hasWaits
	combine    *batches.Report // nil but in Combine
	move       *fleet.Report   // nil but in Move
}

// newLoad makes the workers. newLocker returns the locker of each.
func newLoad(cfg Config, prefix string, newLocker func(worker int) locker) *load {
	l := &load{
		cfg: cfg, names: cfg.names(prefix), series: series.NewBuilder(),
		preciseSleep: process.PreciseSleep,
	}
	if cfg.Fencing {
		l.fences = new(fence.Checker)
	}
	for i := range cfg.Callers + cfg.Cold {
		l.workers = append(l.workers, newWorker(l, i, newLocker(i)))
	}
	return l
}

// run lasts for Config.Duration or until ctx ends, and a little longer for calls in progress.
func (l *load) run(ctx context.Context) measured {
	before := process.UsageNow()
	l.start = time.Now()
	l.series.Start(l.start)
	l.ownership = check.NewOwnership(len(l.names), l.start)
	ctx, cancel := context.WithDeadline(ctx, l.start.Add(l.cfg.Duration))
	defer cancel()

	var workers sync.WaitGroup
	for _, w := range l.workers {
		workers.Go(func() { w.run(ctx) })
	}
	stopProgress, stopPolling := l.series.Progress(l.cfg.Progress, l.acquired),
		l.series.Poll(l.clients)
	<-ctx.Done()
	offered := min(time.Since(l.start), l.cfg.Duration)
	workers.Wait()
	elapsed := time.Since(l.start)
	used := process.UsageNow().Since(before)
	stopProgress()
	stopPolling()

	m := l.sum(elapsed)
	m.started, m.elapsed, m.used, m.series = l.start, elapsed, used, l.series.Series(elapsed)
	if l.cfg.Rate > 0 {
		due := calls.Pacer(l.cfg.Rate).Count(offered)
		m.unserved = due - min(due, uint64(l.begun.Load()))
	}
	return m
}

// sum adds up what the workers recorded in a time. They must have ended.
func (l *load) sum(elapsed time.Duration) measured {
	m := measured{violations: l.ownership.Violations(), acquired: l.acquired()}
	acquire, release, served := series.NewHistogram(), series.NewHistogram(), uint64(0)
	for _, w := range l.workers {
		m.counts.merge(w.counts)
		m.backward += w.backward
		m.violations += w.mixedUp
		served += w.served
		acquire.Merge(w.acquire)
		release.Merge(w.release)
		w.recorder.Commit()
	}
	m.acquire, m.release = acquire.Latency(), release.Latency()
	if l.cfg.hasWaits() {
		m.hot = newHotReport(l.cfg, l.workers, elapsed)
	}
	if l.cfg.Scenario == Combine {
		m.combine = batches.Sum(l.batches, served, elapsed)
	}
	return m
}

func (l *load) acquired() (locks uint64) {
	for _, w := range l.workers {
		locks += w.acquired.Load()
	}
	return locks
}
