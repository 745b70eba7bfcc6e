//go:build unix && !linux

package lockpipetest

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// childAttr returns nil: only Linux can end a child with its parent. The child stays in the process
// group, so that Ctrl-C ends it.
func childAttr() *syscall.SysProcAttr { return nil }

// scratchDir returns the directory in which a child would write if a test asked it to.
func scratchDir() string { return os.TempDir() }

// stopProcess returns when ps shows p as stopped. These systems have no wait call that leaves the
// child's exit status to the goroutine that waits for it.
func stopProcess(p *os.Process) error {
	if err := signalProcess(p, syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(p.Pid)).Output()
		if err != nil {
			return errNotRunning
		}
		if bytes.HasPrefix(bytes.TrimSpace(state), []byte("T")) {
			return nil
		}
	}
}
