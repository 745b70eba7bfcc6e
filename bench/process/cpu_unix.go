//go:build unix

package process

import (
	"syscall"
	"time"
)

// CPUTime returns the user and system time that this process has used, without that of its
// children, or 0 if the system does not report it.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
