package holder

import "syscall"

// endWithParent lets the kernel kill a child when this process ends, however it ends. A child that
// is stopped could not notice.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
