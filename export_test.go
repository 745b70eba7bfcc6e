package lockpipe

import "time"

// The limits of an outage.
const (
	MaxAwake     = maxAwake
	MaxAwakeTime = maxAwakeTime
)

// ShiftClock sets the wall clock that the client's fences come from off by d. It is called before
// the client is used.
func ShiftClock(c *Client, d time.Duration) {
	c.fences.wall = func() time.Time { return time.Now().Add(d) }
}

// BehindClock calls do each time when the client has looked at the wall clock for a fence.
func BehindClock(c *Client, do func()) {
	c.fences.wall = func() time.Time {
		now := time.Now()
		do()
		return now
	}
}

// NewSuspended is New on a machine of which suspended says for how long it was suspended.
func NewSuspended(cfg Config, suspended func(now time.Time) time.Duration) (*Client, error) {
	return newClient(cfg, suspended)
}
