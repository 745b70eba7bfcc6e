package lockpipe

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/stats"
)

// ShiftClock sets the wall clock that the client's fences come from off by d. It is called before
// the client is used.
func ShiftClock(c *Client, d time.Duration) {
	setClock(c, func() time.Time { return time.Now().Add(d) })
}

// BehindClock calls do each time when the client has looked at the wall clock for a fence. It is
// called before the client is used.
func BehindClock(c *Client, do func()) {
	setClock(c, func() time.Time {
		now := time.Now()
		do()
		return now
	})
}

func setClock(c *Client, now func() time.Time) {
	c.locker.Fences = ids.NewFenceClock(now, c.cfg.MaxTTL)
}

// NewSuspended is New on a machine of which suspended says for how long it was suspended.
func NewSuspended(cfg Config, suspended func(now time.Time) time.Duration) (*Client, error) {
	return newClient(cfg, suspended)
}

// QueueIdle reports whether the queue of the process knows nothing of these keys any more.
func QueueIdle(c *Client, keys ...string) bool {
	return c.locker.Queue.Waiting() == 0 && !c.locker.Queue.Knows(keys)
}

// Overload lets the client have as many pending calls as it may, until the returned function is
// called.
func Overload(c *Client) (end func()) {
	begun := 0 // the client may have other calls
	for c.locker.Begin(context.Background(), stats.Try, 0) == nil {
		begun++
	}
	return func() {
		for range begun {
			c.locker.End()
		}
	}
}
