package suspension

import "golang.org/x/sys/unix"

// stoppingClock is the clock of Go's monotonic time, which stops while the machine is suspended.
// continuingClock continues then.
const (
	stoppingClock   = unix.CLOCK_MONOTONIC
	continuingClock = unix.CLOCK_BOOTTIME
)
