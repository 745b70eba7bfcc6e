//go:build !unix

package lockpipetest

import (
	"errors"
	"os"
	"syscall"
)

var errNoFreeze = errors.New("a process can not be frozen on this system: use StartInProcess")

func childAttr() *syscall.SysProcAttr { return nil }

func scratchDir() string { return os.TempDir() }

func stopProcess(*os.Process) error { return errNoFreeze }

func continueProcess(*os.Process) error { return nil } // none was ever stopped
