package main

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// preciseTimer is a clock of the kernel that wakes a goroutine to within some ten microseconds, and
// holds no thread meanwhile. A timer of the runtime counts whole milliseconds, which is as much as
// is to be added. One goroutine may sleep by it.
type preciseTimer struct {
	file *os.File
	raw  syscall.RawConn
	rang [8]byte
}

func newPreciseTimer() (*preciseTimer, error) {
	const monotonic = 1
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, monotonic,
		syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil, fmt.Errorf("timerfd_create: %w", errno)
	}
	file := os.NewFile(fd, "timer")
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &preciseTimer{file: file, raw: raw}, nil
}

// sleep returns after d, or when the timer is closed.
func (t *preciseTimer) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	when := struct{ every, first syscall.Timespec }{first: syscall.NsecToTimespec(int64(d))}
	_ = t.raw.Control(func(fd uintptr) {
		_, _, _ = syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0,
			uintptr(unsafe.Pointer(&when)), 0, 0, 0)
	})
	_, _ = t.file.Read(t.rang[:])
}

func (t *preciseTimer) close() { _ = t.file.Close() }
