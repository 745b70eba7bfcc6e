package lockpipetest

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttr lets the kernel kill the child when its parent ends in any way (but see spawner). It
// also keeps the terminal's Ctrl-C from the child: a program that finishes its work after an
// interrupt still needs its nodes.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// scratchDir returns the working directory of the children. No file can be made in it, and it has
// no dump file.
func scratchDir() string { return "/proc" }

// stopProcess returns when all threads of p have stopped. The kernel reports a child as stopped
// when its last thread has. WNOWAIT keeps the report for the next call, and an exit status for the
// goroutine that waits for it.
func stopProcess(p *os.Process) error {
	if err := signalProcess(p, syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.Pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			return errNotRunning
		case err != nil:
			return fmt.Errorf("wait for process %d to stop: %w", p.Pid, err)
		case info.Code != cldStopped:
			return errNotRunning
		default:
			return nil
		}
	}
}

const cldStopped = 5 // CLD_STOPPED of <signal.h>
