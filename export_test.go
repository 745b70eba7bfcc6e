package lockpipe

import "time"

// ShiftClock sets the wall clock that the client's fences come from off by d. It is called before the client is used.
func ShiftClock(c *Client, d time.Duration) {
	c.fences.wall = func() time.Time { return time.Now().Add(d) }
}
