package lockpipe

import "golang.org/x/sys/unix"

// The clock of Go's monotonic time, which stops while the machine is suspended, and one that goes
// on.
const (
	stoppingClock   = unix.CLOCK_MONOTONIC
	continuingClock = unix.CLOCK_BOOTTIME
)
