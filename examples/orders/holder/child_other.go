//go:build !linux

package holder

import "syscall"

// endWithParent returns nil: here a holder that is stopped outlives this process if it is killed.
func endWithParent() *syscall.SysProcAttr { return nil }
