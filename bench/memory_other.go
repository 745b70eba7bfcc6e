//go:build !linux

package bench

// residentBytes is not known on this system: reports show 0.
func residentBytes() int64 { return 0 }
