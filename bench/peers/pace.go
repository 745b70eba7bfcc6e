package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// pace is what a caller does between its calls. Where a contestant has one, acquire and release
// have separate figures: P50, P99 and Max are those of the acquire. The zero pace is a closed loop:
// each caller calls again immediately.
type pace struct {
	// mean is the mean of the pauses, which are exponentially distributed.
	mean time.Duration
	// timetable lets the pauses lie between the times at which calls are due, whatever the calls
	// take. Else a caller pauses when its call is over.
	timetable bool
}

// A locker takes a lock and gives it back in two steps.
type locker interface {
	// Lock tries once to take key for ttl.
	Lock(ctx context.Context, key string) (release func() error, err error)
}

// due is when the next call is due, after one that was due before and left the caller free at a
// time. draw is of the exponential distribution.
func (p pace) due(before, free time.Duration, draw float64) time.Duration {
	pause := time.Duration(draw * float64(p.mean))
	if p.timetable {
		return before + pause
	}
	return free + pause
}

// from is the moment from which a call counts. One that came due while the caller was busy counts
// from then, or a slow call would hide how long those behind it waited. Else it counts from when
// the caller woke: a timer that is late is nothing that a lock can help.
func (p pace) from(due, free, woke time.Duration) time.Duration {
	if p.timetable && due < free {
		return due
	}
	return woke
}

// runPaced takes and gives back at the contestant's pace until the window is over.
func (k *caller) runPaced(parent context.Context) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	var (
		p    = *k.contestant.pace
		t    = k.contestant.contender.(locker)
		keys = newKeys(k.contestant.tag)
		due  = time.Since(epoch)
	)
	for k.phase.Load() != stopping {
		free := time.Since(epoch)
		due = p.due(due, free, rand.ExpFloat64())
		if due > free {
			sleep(ctx, due-free)
		}
		if ctx.Err() != nil {
			return
		}
		begin := p.from(due, free, time.Since(epoch))
		release, err := t.Lock(ctx, keys.one())
		acquired := time.Since(epoch)
		if err == nil {
			err = release()
		}
		if err == nil && k.phase.Load() != warming {
			k.releases = append(k.releases, call{acquired, time.Since(epoch) - acquired})
		}
		k.count(call{begin, acquired - begin}, err, parent.Err() != nil)
	}
}
