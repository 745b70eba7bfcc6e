package lease

import (
	"sync/atomic"
	"time"
)

// Instant is a time on a Clock: in nanoseconds since the Clock was made. No time is 0.
type Instant int64

// after returns the instant d later.
func (i Instant) after(d time.Duration) Instant { return i + Instant(d) }

// Clock is the monotonic clock plus the suspensions of this machine. While the machine is
// suspended, the nodes' keys expire, but Go's monotonic clock stops. So a suspension brings each
// Instant nearer and changes none of them. All methods are safe for concurrent use.
type Clock struct {
	epoch     time.Time // from which instants count
	suspended func(now time.Time) time.Duration
	last      atomic.Int64 // what suspended returned last; as nanoseconds
}

// NewClock returns a Clock. suspended returns for how long the machine was suspended until now,
// counted from some fixed moment. now comes from time.Now, just before. suspended must not block or
// take a mutex, and its results must not fall. Several goroutines may call it at once. nil means
// that the monotonic clock does not stop.
func NewClock(suspended func(now time.Time) time.Duration) *Clock {
	return &Clock{epoch: time.Now().Add(-1), suspended: suspended}
}

// Now returns the present.
func (c *Clock) Now() Instant {
	t := time.Now()
	if c.suspended == nil {
		return Instant(t.Sub(c.epoch))
	}
	suspended := c.suspended(t)
	for last := c.lastSuspended(); suspended > last; last = c.lastSuspended() {
		c.last.CompareAndSwap(int64(last), int64(suspended))
	}
	return Instant(t.Sub(c.epoch) + suspended)
}

// lastSuspended returns for how long the machine was suspended until the latest reading.
func (c *Clock) lastSuspended() time.Duration { return time.Duration(c.last.Load()) }

// Since returns how long ago an instant was; below 0 if it is to come.
func (c *Clock) Since(i Instant) time.Duration { return time.Duration(c.Now() - i) }

// Time returns when an instant is by the monotonic clock, if the machine is not suspended between
// the latest reading and then.
func (c *Clock) Time(i Instant) time.Time {
	return c.epoch.Add(time.Duration(i) - c.lastSuspended())
}
