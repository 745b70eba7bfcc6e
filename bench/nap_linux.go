package bench

import (
	"syscall"
	"time"
)

// coarse is how much too late a timer of the runtime may be in an idle process on Linux, where it
// waits in whole milliseconds, and somewhat more. A lock takes a fraction of that.
const coarse = 1500 * time.Microsecond

// nap sleeps on a thread of its own, to within the kernel's timer slack of 50 microseconds.
func nap(d time.Duration) {
	for d > 0 {
		wait := syscall.NsecToTimespec(int64(d))
		var left syscall.Timespec
		if syscall.Nanosleep(&wait, &left) == nil {
			return
		}
		d = time.Duration(left.Nano()) // interrupted
	}
}
