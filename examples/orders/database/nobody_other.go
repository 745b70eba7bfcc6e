//go:build !linux

package database

import "syscall"

// give returns nil: databases run as the present user, which must not be root. They outlive this
// process if it is killed.
func give(string) (*syscall.SysProcAttr, error) { return nil, nil }
