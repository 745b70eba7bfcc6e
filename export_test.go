package lockpipe

import "time"

// NewSuspended is New on a machine of which suspended says for how long it was suspended.
func NewSuspended(cfg Config, suspended func(now time.Time) time.Duration) (*Client, error) {
	return newClient(cfg, suspended)
}
