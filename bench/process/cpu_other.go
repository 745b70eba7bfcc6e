//go:build !unix

package process

import "time"

// CPUTime returns 0: this system does not report it.
func CPUTime() time.Duration { return 0 }
