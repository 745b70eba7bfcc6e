package process

import (
	"syscall"
	"time"
)

// TimerSlack is how late a timer of the Go runtime may be in an idle process on Linux, which waits
// in whole milliseconds, and a little more. A lock takes a fraction of that.
const TimerSlack = 1500 * time.Microsecond

// PreciseSleep sleeps on a thread of its own. It is late by no more than the kernel's timer slack
// of 50 microseconds.
func PreciseSleep(d time.Duration) {
	for d > 0 {
		wait := syscall.NsecToTimespec(int64(d))
		var left syscall.Timespec
		if syscall.Nanosleep(&wait, &left) == nil {
			return
		}
		d = time.Duration(left.Nano()) // interrupted
	}
}
