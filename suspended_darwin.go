package lockpipe

import "golang.org/x/sys/unix"

// The clock of Go's monotonic time, which stops while the machine sleeps, and the same that goes
// on. CLOCK_MONOTONIC goes on too, but it follows corrections of the wall clock, which the first
// does not.
const (
	stoppingClock   = unix.CLOCK_UPTIME_RAW
	continuingClock = unix.CLOCK_MONOTONIC_RAW
)
