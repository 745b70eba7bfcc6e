//go:build !linux

package process

// ResidentBytes returns 0: this package does not know how to ask this system.
func ResidentBytes() int64 { return 0 }
