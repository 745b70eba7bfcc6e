package lockpipe

import (
	"sync/atomic"
	"time"
)

// ShiftClock sets the wall clock that the client's fences come from off by d. It is called before the client is used.
func ShiftClock(c *Client, d time.Duration) {
	c.fences.wall = func() time.Time { return time.Now().Add(d) }
}

// PauseInClock stops the process for d, for the call that looks at the wall clock next, right after it has.
func PauseInClock(c *Client, d time.Duration) {
	var once atomic.Bool
	c.fences.wall = func() time.Time {
		now := time.Now()
		if !once.Swap(true) {
			time.Sleep(d)
		}
		return now
	}
}
