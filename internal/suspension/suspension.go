// Package suspension sums up for how long the machine was suspended, as far as its operating system
// can say.
package suspension

import (
	"sync/atomic"
	"time"
)

const (
	// noticeable is how far the wall clock and the monotonic clock move apart, at least, when the
	// machine was suspended or somebody sets the wall clock.
	noticeable = 100 * time.Microsecond
	// certainFor is how long a comparison of these two is enough. It is less than the time between
	// two checks of the lease manager, so each check asks the operating system.
	certainFor = 200 * time.Millisecond
)

// counter sums up for how long the machine was suspended. Meanwhile Go's monotonic clock stops, and
// the nodes expire the keys. The operating system has a clock that stops too and one that
// continues. The difference of the two, the gap, is constant while the machine runs, and grows by
// each suspension.
//
// The two clocks can't be read at one moment, so a reading of the gap is an interval: its least and
// its most. A suspension is counted only if the least of a reading is above the most of those
// before. So a goroutine that is stopped between two clocks never looks like a suspension. Then the
// greatest growth that the readings allow is counted, so it is never less than the suspension took.
// A suspension that is too short to leave the interval, of a microsecond or so, is part of the
// drift allowance.
//
// Reading the clocks takes system calls, and the clock is checked several times for each lock. So a
// check first compares the wall clock with the monotonic clock, which time.Now reads anyway. A
// resume moves the wall clock and the gap together. If the wall clock is as far ahead as when the
// gap was read last, and that is not long ago, the machine was not suspended since. The reverse is
// not true: somebody may have set the wall clock. Then the gap is read again, and is unchanged. A
// check reads the wall clock before the gap. So the next check finds a suspension between the two.
//
// A check misses two kinds of suspension, and finds them certainFor later: one that is shorter than
// noticeable, and one after which somebody sets the wall clock back by exactly its length.
type counter struct {
	gap   func() (least, most time.Duration, err error) // reads the clocks
	epoch time.Time
	last  atomic.Pointer[gapReading]
}

// gapReading is what was known of the gap after one reading.
type gapReading struct {
	awake       time.Duration // when it was read, on the monotonic clock
	ahead       time.Duration // how far the wall clock was ahead of that, plus a constant
	least, most time.Duration // the gap, by all readings since the last suspension
	total       time.Duration // all suspensions until then
}

// newCounter returns a counter that has counted nothing yet. An error is that of gap.
func newCounter(gap func() (least, most time.Duration, err error)) (*counter, error) {
	c := &counter{gap: gap, epoch: time.Now()}
	least, most, err := gap()
	if err != nil {
		return nil, err
	}
	c.last.Store(&gapReading{awake: -certainFor, least: least, most: most}) // too old for any check
	return c, nil
}

// until returns for how long the machine was suspended until now. time.Now has just returned now.
func (c *counter) until(now time.Time) time.Duration {
	awake := now.Sub(c.epoch)
	return c.check(awake, time.Duration(now.UnixNano())-awake)
}

// check is until, given the monotonic clock and how far the wall clock is ahead of it.
func (c *counter) check(awake, ahead time.Duration) time.Duration {
	for {
		last := c.last.Load()
		if (ahead-last.ahead).Abs() < noticeable && awake-last.awake < certainFor {
			return last.total
		}
		least, most, err := c.gap() // later than the reading of last
		if err != nil {
			return last.total
		}
		next := last.next(awake, ahead, least, most)
		if c.last.CompareAndSwap(last, next) {
			return next.total
		}
	}
}

// next returns what is known after a further reading.
func (r *gapReading) next(awake, ahead, least, most time.Duration) *gapReading {
	n := &gapReading{awake: awake, ahead: ahead, least: least, most: most, total: r.total}
	if least > r.most {
		n.total += most - r.least
		return n
	}
	n.least, n.most = max(least, r.least), min(most, r.most)
	return n
}
