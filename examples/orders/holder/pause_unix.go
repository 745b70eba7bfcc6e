//go:build unix

package holder

import (
	"os"
	"syscall"
)

// pause stops a process until resume.
func pause(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// resume lets a process go on. It does nothing to one that is not stopped.
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
