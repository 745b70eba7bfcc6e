//go:build !linux && !darwin

package suspension

import "time"

// Counter returns nil: only the monotonic clock counts. On Windows that is enough: Go reads the
// interrupt time, which continues while the machine sleeps. Other systems have no pair of clocks
// that is known to show a suspension.
func Counter() func(now time.Time) time.Duration { return nil }
