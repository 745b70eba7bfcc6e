package main

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// alarm is a clock of the kernel that wakes a goroutine to within some ten microseconds, and holds
// no thread meanwhile. A timer of the runtime counts whole milliseconds, which is as much as is to
// be added. One goroutine may sleep by it.
type alarm struct {
	file *os.File
	raw  syscall.RawConn
	rang [8]byte
}

func newAlarm() (*alarm, error) {
	const monotonic = 1
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, monotonic,
		syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil, fmt.Errorf("timerfd_create: %w", errno)
	}
	file := os.NewFile(fd, "alarm")
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &alarm{file: file, raw: raw}, nil
}

// sleep returns after d, or when the alarm is closed.
func (a *alarm) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	when := struct{ every, first syscall.Timespec }{first: syscall.NsecToTimespec(int64(d))}
	_ = a.raw.Control(func(fd uintptr) {
		_, _, _ = syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0,
			uintptr(unsafe.Pointer(&when)), 0, 0, 0)
	})
	_, _ = a.file.Read(a.rang[:])
}

func (a *alarm) close() { _ = a.file.Close() }
