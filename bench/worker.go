package bench

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/batches"
	"github.com/lockpipe/lockpipe/bench/calls"
	"github.com/lockpipe/lockpipe/bench/process"
	"github.com/lockpipe/lockpipe/bench/series"
	"github.com/lockpipe/lockpipe/bench/waits"
)

// releasePause is the time between two tries to release while too few nodes answer.
const releasePause = 10 * time.Millisecond

// worker is one caller: it takes keys, holds them, releases them, and records what happened.
type worker struct {
	// set once before run
	load   *load
	holder uint32 // its number in the ownership checker, from 1
	locker locker
	cold   bool // in the scenario Cart: it does without the hot keys

	// owned by run; read by others after it returned
	keys     calls.KeyChooser
	timer    *time.Timer
	chosen   []int    // the keys of this call
	names    []string // their names
	claims   []uint64 // their words in the ownership checker
	counts   counts
	acquire  series.Histogram
	release  series.Histogram
	waits    *waits.Waits // nil but in the scenarios Hot, Cart and Combine
	recorder *series.Recorder
	// backward counts keys whose fence was not above those of earlier leases on them.
	backward uint64
	// In the scenario Combine: what runs the calls, how many of them were served, and how many got
	// the result of another item.
	batches         *batches.Calls
	served, mixedUp uint64

	// written by run, read at any time
	acquired atomic.Uint64
}

func newWorker(l *load, number int, lo locker) *worker {
	perCall, cold := l.cfg.perCall(), number >= l.cfg.Callers
	if cold {
		perCall = 1
	}
	timer := time.NewTimer(0)
	timer.Stop()
	w := &worker{
		load:    l,
		holder:  uint32(number) + 1,
		locker:  lo,
		cold:    cold,
		keys:    calls.NewKeyChooser(l.cfg.Seed, number),
		timer:   timer,
		chosen:  make([]int, perCall),
		names:   make([]string, perCall),
		claims:  make([]uint64, perCall),
		acquire: series.NewHistogram(),
		release: series.NewHistogram(),
	}
	w.recorder = l.series.NewRecorder(func() series.Tally {
		return w.counts.tally(w.acquired.Load())
	})
	if l.cfg.hasWaits() {
		w.waits = waits.New()
	}
	return w
}

// run calls until ctx ends. It releases what it was granted before it returns.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		due, ok := w.awaitDue(ctx)
		if !ok {
			return
		}
		if w.batches != nil {
			w.order(ctx, due)
		} else {
			w.call(ctx, due)
		}
	}
}

// awaitDue returns when the next call may start, and when it was due. It reports false if the run
// is over.
func (w *worker) awaitDue(ctx context.Context) (due time.Time, ok bool) {
	if w.load.cfg.Rate == 0 || w.cold {
		return time.Now(), true
	}
	due = w.load.start.Add(calls.Pacer(w.load.cfg.Rate).Due(uint64(w.load.begun.Add(1) - 1)))
	if w.sleep(ctx, time.Until(due)-process.TimerSlack) {
		w.load.preciseSleep(time.Until(due))
	}
	if ctx.Err() != nil {
		w.load.begun.Add(-1) // it does not begin
		return due, false
	}
	return due, true
}

// sleep reports false if ctx ended before the time had passed.
func (w *worker) sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	w.timer.Reset(d)
	select {
	case <-w.timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		w.timer.Stop()
		return false
	}
}

// call is one round: lock, hold, unlock. A lock that the end of the run cut off does not count.
func (w *worker) call(ctx context.Context, due time.Time) {
	w.choose()
	called := time.Now()
	results := w.locker.lock(ctx, w.names)
	returned := time.Now()
	w.recorder.Roll(returned)
	w.checkFences(results)
	held := w.claim(ctx, results)
	w.recordWait(returned.Sub(called), held > 0)
	if held == 0 {
		return
	}
	w.acquired.Add(held)
	w.acquire.Record(returned.Sub(due))
	w.recorder.Acquire(returned.Sub(due))
	w.sleep(ctx, w.load.cfg.Hold)
	w.drop()
	before := time.Now()
	w.unlock(results)
	after := time.Now()
	w.recorder.Roll(after)
	w.release.Record(after.Sub(before))
	w.recorder.Release(after.Sub(before))
	if w.waits != nil {
		w.waits.Use(returned, before, results[0].until)
	}
	for _, r := range results {
		if r.held {
			w.counts.end(r)
		}
	}
}

// recordWait records how long a call of the scenarios Hot and Cart waited.
func (w *worker) recordWait(d time.Duration, granted bool) {
	if w.waits == nil {
		return
	}
	w.waits.Record(d, granted)
	if granted && !w.cold {
		w.recorder.Wait(d)
	}
}

// unlock releases, and tries again if the release was not confirmed in time, while the keys may
// still be there. The end of the run does not stop it.
func (w *worker) unlock(results []result) {
	ctx := context.Background()
	for {
		w.locker.unlock(ctx)
		unconfirmed := slices.ContainsFunc(results, func(r result) bool {
			return r.held && errors.Is(r.err, lockpipe.ErrNoQuorum) && time.Now().Before(r.until)
		})
		if !unconfirmed {
			return
		}
		w.sleep(ctx, releasePause)
	}
}

// claim claims every key that was granted, and returns how many these are. It counts the others.
func (w *worker) claim(ctx context.Context, results []result) (held uint64) {
	next := 0
	for _, r := range results {
		for range r.keys {
			w.claims[next] = 0
			if r.held {
				w.claims[next] = w.load.ownership.Claim(w.chosen[next], w.holder, r.until)
				held++
			}
			next++
		}
		if !r.held && !cutOff(ctx, r.err) {
			w.counts.fail(r)
		}
	}
	return held
}

// checkFences compares the fences of what was granted with earlier ones, if the run has fences. A
// fence counts if its lease was still valid after the comparison: a later holder may have overtaken
// one that was not, which is what fences are for.
func (w *worker) checkFences(results []result) {
	next := 0
	for _, r := range results {
		for _, k := range w.chosen[next : next+r.keys] {
			if r.held && w.load.fences != nil && !w.load.fences.Allow(w.load.names[k], r.fence) &&
				time.Now().Before(r.until) {
				w.backward++
			}
		}
		next += r.keys
	}
}

func (w *worker) drop() {
	for i, word := range w.claims {
		w.load.ownership.Drop(w.chosen[i], word)
	}
}
