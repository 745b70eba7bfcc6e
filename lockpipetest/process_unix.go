//go:build unix

package lockpipetest

import (
	"errors"
	"os"
	"syscall"
)

// continueProcess undoes stopProcess.
func continueProcess(p *os.Process) error { return signalProcess(p, syscall.SIGCONT) }

func signalProcess(p *os.Process, sig os.Signal) error {
	err := p.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return errNotRunning
	}
	return err
}
