//go:build !unix

package holder

import (
	"errors"
	"os"
)

// pause returns an error: here a process can't be stopped.
func pause(*os.Process) error { return errors.ErrUnsupported }

// resume does nothing.
func resume(*os.Process) error { return nil }
