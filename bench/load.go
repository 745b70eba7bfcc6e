package bench

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/fence"
)

// progressStep is how often Config.Progress is told.
const progressStep = 100 * time.Millisecond

// load is the measured part of a run: all workers, from the common start to the last one's end.
type load struct {
	// set once before the workers start
	cfg     Config
	names   []string
	holders *holders
	series  *series
	start   time.Time
	workers []*worker
	nap     func(time.Duration) // sleeps precisely, for at most coarse
	look    func() look         // at the Clients; nil where there are none
	fences  *fence.Checker      // nil without fencing

	// taken is how many calls of the open loop's timetable have found a worker.
	taken atomic.Int64
}

// cost is what the process has used up to a moment.
type cost struct {
	cpu    time.Duration
	allocs uint64
}

func costNow() cost {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return cost{cpu: cpuTime(), allocs: m.Mallocs}
}

// measured is what a load came to.
type measured struct {
	started  time.Time
	elapsed  time.Duration
	cost     cost
	acquired uint64
	unserved uint64
	counts   counts
	acquire  Latency
	release  Latency
	violated uint64
	series   *Series
	backward uint64     // fences that were not above those before them
	hot      *HotReport // without what only the Clients know; nil but in the scenario Hot
}

// newLoad makes the workers; newTaker is asked for the caller of each.
func newLoad(cfg Config, prefix string, newTaker func(worker int) taker) *load {
	l := &load{cfg: cfg, names: cfg.names(prefix), series: newSeries(), nap: nap}
	if cfg.Fencing {
		l.fences = new(fence.Checker)
	}
	for i := range cfg.Callers {
		l.workers = append(l.workers, newWorker(l, i, newTaker(i)))
	}
	return l
}

// run lasts for Config.Duration or until ctx ends, and a little longer for what is under way.
func (l *load) run(ctx context.Context) measured {
	before := costNow()
	l.start = time.Now()
	l.series.start = l.start
	l.holders = newHolders(len(l.names), l.start)
	ctx, cancel := context.WithDeadline(ctx, l.start.Add(l.cfg.Duration))
	defer cancel()

	var workers sync.WaitGroup
	for _, w := range l.workers {
		workers.Go(func() { w.run(ctx) })
	}
	stopProgress, stopLooking := l.cfg.progress(l.start, l.acquired), l.series.follow(l.look)
	<-ctx.Done()
	offered := min(time.Since(l.start), l.cfg.Duration)
	workers.Wait()
	elapsed := time.Since(l.start)
	after := costNow()
	stopProgress()
	stopLooking()

	m := l.sum()
	m.started, m.elapsed, m.series = l.start, elapsed, l.series.report(elapsed)
	m.cost = cost{cpu: after.cpu - before.cpu, allocs: after.allocs - before.allocs}
	if l.cfg.Rate > 0 {
		due := pacer(l.cfg.Rate).count(offered)
		m.unserved = due - min(due, uint64(l.taken.Load()))
	}
	return m
}

// sum adds up what the workers noted. They must have ended.
func (l *load) sum() measured {
	m := measured{violated: l.holders.violations.Load(), acquired: l.acquired()}
	acquire, release := newLatency(), newLatency()
	for _, w := range l.workers {
		m.counts.add(w.counts)
		m.backward += w.backward
		acquire.merge(w.acquire)
		release.merge(w.release)
		w.tab.hand()
	}
	m.acquire, m.release = acquire.summary(), release.summary()
	if l.cfg.Scenario == Hot {
		m.hot = newHotReport(l.workers)
	}
	return m
}

func (l *load) acquired() (locks uint64) {
	for _, w := range l.workers {
		locks += w.acquired.Load()
	}
	return locks
}

// progress tells Config.Progress until the function that it returns is called, and once then.
func (c Config) progress(start time.Time, acquired func() uint64) (stop func()) {
	if c.Progress == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressStep)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.Progress(time.Since(start), acquired())
			case <-done:
				c.Progress(time.Since(start), acquired())
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
