package ids

import (
	"sync/atomic"
	"time"
)

const (
	// The reserved numbers may lead the clock ahead of the wall clock by a leadFraction of MaxTTL,
	// and by maxLead at most: after nodes forgot their numbers only the wall clocks keep the
	// order. A lease gets a reserveFraction of what is left of the lead.
	leadFraction, reserveFraction = 4, 16
	maxLead                       = time.Minute
	// maxFollow is how far ahead of the wall clock the clock follows what a call saw of others.
	maxFollow = 10 * time.Minute
)

// FenceClock is the hybrid logical clock of one client. All methods are safe for concurrent use,
// and none of them blocks.
type FenceClock struct {
	now     func() time.Time // set once
	maxLead int64            // microseconds; set once
	highest int64            // the highest number there may be; set once
	last    atomic.Int64     // the highest number that all further proposals must be above
}

// NewFenceClock returns a clock that follows the wall clock now. maxTTL is the longest TTL that any
// client of the same nodes uses. highest is the highest fence there may be.
func NewFenceClock(now func() time.Time, maxTTL time.Duration, highest int64) *FenceClock {
	lead := min(maxTTL/leadFraction, maxLead)
	return &FenceClock{now: now, maxLead: lead.Microseconds(), highest: highest}
}

// Reserve returns the numbers from first to last for one lease: at least one, and at most so many.
// They are above floor and above all numbers before them, but for what a call saw far ahead of the
// wall clock.
func (c *FenceClock) Reserve(floor, most int64) (first, last int64) {
	for {
		before, now := c.last.Load(), c.now().UnixMicro()
		furthest := now + maxFollow.Microseconds()
		if first = now; before <= furthest { // else the wall clock was wrong, and was set back
			first = max(before+1, now)
		}
		first = min(max(first, floor+1), c.highest)
		count := max(1, min(most, (now+c.maxLead-first)/reserveFraction))
		last = min(first-1+count, c.highest)
		if last > furthest || c.last.CompareAndSwap(before, last) {
			return first, last
		}
	}
}
