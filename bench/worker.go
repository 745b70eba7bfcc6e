package bench

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe"
)

// releasePause is the time between two tries to release while too few nodes answer.
const releasePause = 10 * time.Millisecond

// counts are keys, except where noted: a lease over 100 keys is 100 locks.
type counts struct {
	released, refused, noQuorum, expired, lost, errors uint64
	firstError                                         error
	kinds                                              kinds // of calls, refused ones excepted
}

// worker is one caller: it takes keys, holds them, gives them back, and notes what happened.
type worker struct {
	// set once before run
	load   *load
	holder uint32 // its number in holders, from 1
	taker  taker

	// owned by run; read by others after it returned
	picker  picker
	timer   *time.Timer
	chosen  []int    // the keys of this call
	names   []string // their names
	claims  []uint64 // their words in holders
	counts  counts
	acquire latency
	release latency
	waiting *waiting // nil but in the scenario Hot
	tab     tab
	// backward counts keys whose fence was not above those of earlier leases on them.
	backward uint64

	// written by run, read at any time
	acquired atomic.Uint64
}

func newWorker(l *load, number int, t taker) *worker {
	perCall := l.cfg.perCall()
	timer := time.NewTimer(0)
	timer.Stop()
	w := &worker{
		load:    l,
		holder:  uint32(number) + 1,
		taker:   t,
		picker:  newPicker(l.cfg.Seed, number),
		timer:   timer,
		chosen:  make([]int, perCall),
		names:   make([]string, perCall),
		claims:  make([]uint64, perCall),
		acquire: newLatency(),
		release: newLatency(),
	}
	w.tab = tab{series: l.series, counts: &w.counts, acquired: &w.acquired}
	if l.cfg.Scenario == Hot {
		w.waiting = &waiting{granted: newLatency()}
	}
	return w
}

// run calls until ctx ends. What it was granted is released before it returns.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		due, ok := w.await(ctx)
		if !ok {
			return
		}
		w.call(ctx, due)
	}
}

// await returns when the next call may start, and when it was due; false when it will not be.
func (w *worker) await(ctx context.Context) (due time.Time, ok bool) {
	if w.load.cfg.Rate == 0 {
		return time.Now(), true
	}
	due = w.load.start.Add(pacer(w.load.cfg.Rate).due(uint64(w.load.taken.Add(1) - 1)))
	if w.sleep(ctx, time.Until(due)-coarse) {
		w.load.nap(time.Until(due))
	}
	if ctx.Err() != nil {
		w.load.taken.Add(-1) // it is not started after all
		return due, false
	}
	return due, true
}

// sleep reports whether the time passed before ctx ended.
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

// call is one round: take, hold, give. A take that the end of the run cut off does not count as
// anything.
func (w *worker) call(ctx context.Context, due time.Time) {
	w.choose()
	called := time.Now()
	grants := w.taker.take(ctx, w.names)
	returned := time.Now()
	w.tab.turn(returned)
	w.checkFences(grants)
	held := w.claim(ctx, grants)
	w.wait(returned.Sub(called), held > 0)
	if held == 0 {
		return
	}
	w.acquired.Add(held)
	w.acquire.record(returned.Sub(due))
	w.tab.acquire.record(returned.Sub(due))
	w.sleep(ctx, w.load.cfg.Hold)
	w.drop()
	before := time.Now()
	w.give(grants)
	after := time.Now()
	w.tab.turn(after)
	w.release.record(after.Sub(before))
	w.tab.release.record(after.Sub(before))
	for _, g := range grants {
		if g.held {
			w.counts.end(g)
		}
	}
}

// wait notes how long a call of the scenario Hot waited.
func (w *worker) wait(d time.Duration, granted bool) {
	if w.waiting == nil {
		return
	}
	w.waiting.note(d, granted)
	if granted {
		w.tab.wait.record(d)
	}
}

// give releases, and asks again where that was not confirmed in time, as long as the keys may still
// be there. The end of the run does not stop it.
func (w *worker) give(grants []grant) {
	ctx := context.Background()
	for {
		w.taker.give(ctx)
		open := slices.ContainsFunc(grants, func(g grant) bool {
			return g.held && errors.Is(g.err, lockpipe.ErrNoQuorum) && time.Now().Before(g.until)
		})
		if !open {
			return
		}
		w.sleep(ctx, releasePause)
	}
}

func (w *worker) choose() {
	w.picker.pick(w.chosen, len(w.load.names))
	for i, k := range w.chosen {
		w.names[i] = w.load.names[k]
	}
}

// claim tells holders of every key that was granted, and returns how many they are. What was not
// granted is counted.
func (w *worker) claim(ctx context.Context, grants []grant) (held uint64) {
	next := 0
	for _, g := range grants {
		for range g.keys {
			w.claims[next] = 0
			if g.held {
				w.claims[next] = w.load.holders.claim(w.chosen[next], w.holder, g.until)
				held++
			}
			next++
		}
		if !g.held && !cutOff(ctx, g.err) {
			w.counts.fail(g)
		}
	}
	return held
}

// checkFences compares the fences of what was granted with those before them, if there are any.
// What counts was valid still when it was compared: who comes later may be overtaken, which is what
// fences are for.
func (w *worker) checkFences(grants []grant) {
	next := 0
	for _, g := range grants {
		for _, k := range w.chosen[next : next+g.keys] {
			if g.held && w.load.fences != nil && !w.load.fences.Allow(w.load.names[k], g.fence) &&
				time.Now().Before(g.until) {
				w.backward++
			}
		}
		next += g.keys
	}
}

func (w *worker) drop() {
	for i, word := range w.claims {
		w.load.holders.drop(w.chosen[i], word)
	}
}

// cutOff tells whether a take failed only because the run was over.
func cutOff(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, ctx.Err())
}

// fail counts keys that were not granted.
func (c *counts) fail(g grant) {
	switch {
	case errors.Is(g.err, lockpipe.ErrHeld):
		c.refused += uint64(g.keys)
	case errors.Is(g.err, lockpipe.ErrNoQuorum):
		c.noQuorum += uint64(g.keys)
		c.kinds.note(g.err)
	default:
		c.other(g)
	}
}

// end counts keys that were granted, by how their lease ended.
func (c *counts) end(g grant) {
	switch {
	case g.err == nil:
		c.released += uint64(g.keys)
	case errors.Is(g.err, lockpipe.ErrExpired):
		c.expired += uint64(g.keys)
	case errors.Is(g.err, lockpipe.ErrLost):
		c.lost += uint64(g.keys)
	default:
		c.other(g)
	}
}

func (c *counts) other(g grant) {
	c.errors += uint64(g.keys)
	c.kinds.note(g.err)
	if c.firstError == nil {
		c.firstError = g.err
	}
}

func (c *counts) add(from counts) {
	c.released += from.released
	c.refused += from.refused
	c.noQuorum += from.noQuorum
	c.expired += from.expired
	c.lost += from.lost
	c.errors += from.errors
	c.kinds.add(from.kinds)
	if c.firstError == nil {
		c.firstError = from.firstError
	}
}
