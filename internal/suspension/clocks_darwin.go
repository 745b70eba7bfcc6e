package suspension

import "golang.org/x/sys/unix"

// stoppingClock is the clock of Go's monotonic time, which stops while the machine sleeps.
// continuingClock is the same clock, but continues then. CLOCK_MONOTONIC continues too, but it
// follows corrections of the wall clock, and stoppingClock does not.
const (
	stoppingClock   = unix.CLOCK_UPTIME_RAW
	continuingClock = unix.CLOCK_MONOTONIC_RAW
)
