//go:build !unix

package bench

import "time"

// cpuTime is not known on this system: reports show 0.
func cpuTime() time.Duration { return 0 }
